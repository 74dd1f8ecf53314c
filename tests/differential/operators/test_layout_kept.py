"""Copies lie in memory as torch's do."""

import pytest

torch = pytest.importorskip("torch")

import pullback

VIEWS = [
    lambda t: t.zeros(3).expand(2, 3),
    lambda t: t.zeros(3, 1).expand(3, 4),
    lambda t: t.zeros(2, 1, 3).expand(2, 5, 3),
    lambda t: t.zeros(2, 3, 4).permute(2, 0, 1),
    lambda t: t.zeros(2, 3, 4, 5)[:, ::2, :, ::2],
    lambda t: t.zeros(4, 6).t()[::2],
    lambda t: t.zeros(()).expand(2, 2),
]


@pytest.mark.parametrize("view", VIEWS)
def test_a_clone_has_torchs_strides(view):
    assert view(pullback).clone().stride() == view(torch).clone().stride()


@pytest.mark.parametrize("view", VIEWS)
def test_a_move_has_torchs_strides(view):
    assert view(pullback).to("meta").stride() == view(torch).to("meta").stride()
