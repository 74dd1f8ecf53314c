"""Indices are int64 where addresses are short too; where they are long nothing stands in the way.

tests/wasm runs the operators themselves where addresses have 32 bits.
"""

from types import SimpleNamespace

import numpy
import pytest

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
