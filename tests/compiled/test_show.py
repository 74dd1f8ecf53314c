"""`pullback show` knows every public name, and says all ways in which an operator runs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import pullback
from pullback.compiled import show
from pullback.operators.attach import names
from pullback.operators.attach.every import load_all
from pullback.operators.attach.faces import pairs
from pullback.operators.declare import OPERATORS


def public_names():
    for table in (names.FIRST, names.FUNCTIONS):
        for listed in table.values():
            yield from (public for public, _ in pairs(listed))
    for module, table in names.FACES.items():
        for listed in table.values():
            yield from (f"{module}.{public}" for public, _ in pairs(listed))
    for listed in names.METHODS.values():
        yield from (f"Tensor.{name}" for name in listed.split())


load_all()
NAMES = sorted(one for one in {*public_names()} if inspect.isroutine(show._public(one)))


def test_every_public_name_is_found():
    assert [one for one in NAMES if show.found(one) is None] == []
    assert len(NAMES) > 1000


@pytest.mark.parametrize("name", NAMES[::40])
def test_a_page_says_what_a_name_means(name):
    text = show.shown(name)
    assert "# its meaning, declared at " in text or "a function of operators" in text


@pytest.mark.parametrize(
    "name", ["nn.functional.gelu", "conv2d", "layer_norm", "Tensor.view", "torch.mul", "Tensor.T"]
)
def test_names_in_all_spellings_are_found(name):
    assert "pullback/operators/" in show.shown(name)


def test_all_operators_are_loaded_for_who_looks_at_all():
    load_all()
    known = {*OPERATORS}
    rooms = pkgutil.walk_packages(pullback.operators.__path__, "pullback.operators.")
    for found in rooms:
        if ".cuda" not in found.name:
            importlib.import_module(found.name)
    assert {*OPERATORS} == known


def test_a_page_lists_kernels_conditions_rules_lowering_devices_and_layouts():
    text = show.shown("sum")
    assert "def sum(" in text  # the composition
    for part in (
        "# sum.full: linear, node SumBackward0",
        "#   short_by_dot: pullback/operators/reduce/sums.py:",
        "when dim is None and keepdim is False and dtype is None",
        "#   input: unreduce(g, input_shape, dim, keepdim)",
        "# compiled programs: lowered by pullback/compiled/lower/",
        "# on a CUDA device: ",
        "# layouts of its own: sparse",
        "# torch's overload: sum.dim_IntList",
    ):
        assert part in text, part


def test_a_page_has_the_kernels_of_a_formula_and_its_derivatives():
    text = show.shown("nn.functional.gelu")
    for part in (
        "#   few_lines: when input_size < 500 and input_ndim",
        "#   machine_code: when input_size >= 2048",
        "# its gradient by input, derived",
        "def _gelu_backward(xp, gradient, input, approximate):",
        "xp.tanh(",
    ):
        assert part in text, part
    text = show.shown("tanh")  # a single call of NumPy, with a slope by hand
    assert "few_lines" not in text
    assert "# its gradient by input, with the slope by hand" in text
    pages = {key: "".join(show._formula(op)) for key, op in OPERATORS.items() if op.formula}
    assert {key for key, page in pages.items() if not page} <= {"tan", "sinh", "cosh"}


def test_an_unknown_name_has_near_ones():
    with pytest.raises(show.Unknown) as unknown:
        show.shown("sigmoi")
    assert "sigmoid" in unknown.value.args
