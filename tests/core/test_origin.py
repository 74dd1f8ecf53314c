"""Provenance: nodes and writes know the user's line."""

from __future__ import annotations

import inspect

import pytest

import pullback as torch
from pullback.core import origin


def here() -> int:
    return inspect.currentframe().f_back.f_lineno


def test_a_node_knows_the_line_that_made_it():
    x = torch.ones(2, requires_grad=True)
    y, line = x * 2, here()
    assert y.grad_fn.origin.file == __file__
    assert y.grad_fn.origin.line == line
    assert y.grad_fn.origin.function == "test_a_node_knows_the_line_that_made_it"
    assert "x * 2" in y.grad_fn.origin.source


def test_composed_functions_point_to_the_users_line_not_to_ours():
    x = torch.ones(2, 3, requires_grad=True)
    y, line = x.reshape(3, 2).flatten(), here()
    assert y.grad_fn.origin.file == __file__
    assert y.grad_fn.origin.line == line


def test_an_in_place_error_names_the_write():
    x = torch.ones(2, requires_grad=True)
    a = x * 1.0
    b = a * a
    a.add_(1.0)
    line = here() - 1
    with pytest.raises(RuntimeError, match=rf"add_ at test_origin.py:{line}"):
        b.sum().backward()


def test_here_is_the_caller_outside_the_package():
    assert origin.here().file == __file__
