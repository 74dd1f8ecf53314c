"""Indices are int64 where addresses are short too; where they are long nothing stands in the way.

tests/wasm runs the operators themselves where addresses have 32 bits.
"""

import ast
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest

import pullback
from pullback.core import addresses
from pullback.operators.arrays.sorting import few_in_order


@pytest.fixture
def short(monkeypatch):
    """Addresses of 32 bits."""
    given = SimpleNamespace(intp=numpy.int32, int64=numpy.int64)
    monkeypatch.setattr(addresses, "numpy", given)


@pytest.mark.skipif(addresses.SHORT, reason="addresses have 32 bits")
def test_long_addresses_cost_nothing():
    assert not hasattr(few_in_order, "__wrapped__")
    assert addresses.finds_indices(1)(few_in_order) is few_in_order
    numbers = numpy.zeros(2, "i8")
    assert addresses.as_counts(numbers) is addresses.as_indices(numbers) is numbers


def test_indices_alone_become_long(short):
    values, found = numpy.zeros(2, "i4"), numpy.ones(2, "i4")
    wide = addresses.widened(lambda: (values, found), (1,))
    assert wide()[0] is values
    assert wide()[1].dtype == numpy.int64
    assert wide()[1].tolist() == [1, 1]


def test_whole_results_lists_and_numbers_become_long(short):
    def wide(result):
        return addresses.widened(lambda: result, ())()

    assert wide(numpy.int32(3)).dtype == numpy.int64
    assert [one.dtype.name for one in wide([numpy.zeros(1, "i4")])] == ["int64"]
    floats = numpy.zeros(2, "f4")  # counts with weights
    assert wide(floats) is floats
    assert addresses.widened(lambda: None, (1,))() is None  # a kernel that declines


def test_counts_become_as_short_as_addresses(short):
    assert addresses._address_wide(numpy.array([1, 2], "i8")).dtype == numpy.int32


# Methods and functions of NumPy whose results are its own indices.
FIND = {"argmax", "argmin", "argpartition", "argsort", "flatnonzero", "lexsort", "nonzero"}


def test_kernels_that_return_what_numpy_found_say_that_it_is_indices():
    """Where addresses are long nobody would notice the decorator missing."""
    bare = []
    for path in (Path(pullback.__file__).parent / "operators").rglob("*.py"):
        for made in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(made, ast.FunctionDef):
                continue
            decorators = {ast.unparse(one).partition("(")[0] for one in made.decorator_list}
            found = [
                one.value.func.attr
                for one in ast.walk(made)
                if isinstance(one, ast.Return)
                and isinstance(one.value, ast.Call)
                and isinstance(one.value.func, ast.Attribute)
            ]
            if "kernel" in decorators and FIND & {*found} and "finds_indices" not in decorators:
                bare.append(f"{path.name}: {made.name}")
    assert bare == []
