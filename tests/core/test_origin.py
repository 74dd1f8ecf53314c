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


def test_cells_of_notebooks_are_called_as_their_users_know_them(monkeypatch):
    import sys
    import types

    from pullback.core.origin import Origin

    def place(file):
        return str(Origin(compile("1\n2\nx = 3", file, "exec"), 6))

    name = "/tmp/ipykernel_12/345.py"
    shell = types.SimpleNamespace(compile=types.SimpleNamespace(_filename_map={name: 3}))
    fake = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    assert place(name).startswith("In [3]:")
    assert place("/tmp/ipykernel_12/other.py").startswith("other.py:")
    monkeypatch.delitem(sys.modules, "IPython")
    assert place("<ipython-input-7-abc>").startswith("In [7]:")
    assert place("/home/train.py").startswith("train.py:")


def test_a_call_through_the_package_between_two_of_the_user_keeps_everybodys_line():
    x = torch.ones(2, requires_grad=True)

    def other():
        return x * 2

    for _ in range(2):  # whoever called last is remembered
        first, there = x * 2, other()
        through, again = torch.nn.functional.softsign(x), x * 2
        lines = [one.grad_fn.origin.line for one in (first, through, again)]
        assert lines == [here() - 3, here() - 2, here() - 2]
        assert there.grad_fn.origin.function == "other"
