"""`tensor.why_no_grad()` names what cut the tensor off, and where."""

import inspect

import pytest

import pullback as torch


def leaf():
    return torch.tensor([1.0, 2.0], requires_grad=True)


@pytest.mark.parametrize(
    ("cut", "named"),
    [
        (lambda x: x.detach(), "detach()"),
        (lambda x: x.data, ".data"),
        (lambda x: (x * 2).detach_(), "detach_()"),
    ],
)
def test_cuts_are_named_with_their_line(cut, named):
    line = inspect.getsourcelines(cut)[1]
    text = cut(leaf()).why_no_grad()
    assert text.startswith(named)
    assert f"test_why.py:{line}" in text


def test_dtype_and_mode_are_named():
    x = leaf()
    assert "torch.bool" in (x > 1).why_no_grad()
    assert "torch.int64" in x.argmax().why_no_grad()
    with torch.inference_mode():
        y = x * 2
    assert "inference_mode" in y.why_no_grad()
    with torch.no_grad():
        assert "Grad mode is off" in (x * 2).why_no_grad()


def test_leaves_that_nobody_asked_for():
    assert "requires_grad" in torch.zeros(2).why_no_grad()
    assert "requires grad" in leaf().why_no_grad()


def test_a_tensor_detached_from_nothing_remembers_nothing():
    assert "_cut" not in vars(torch.zeros(2).detach())
