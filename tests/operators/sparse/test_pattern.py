"""Patterns: places in every layout, and what follows from them."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

from pullback.core.layout import SPARSE, sparse_coo
from pullback.operators.sparse.array import SparseArray, dense_of, values_at
from pullback.operators.sparse.layouts import full_pattern, pattern_in, places_of_dense
from pullback.operators.sparse.pattern import coordinates, same_places

matrices = arrays_of.arrays(
    numpy.int64,
    arrays_of.array_shapes(min_dims=2, max_dims=2, max_side=4).map(lambda s: (2 * s[0], s[1])),
    elements=st.integers(-1, 2),
)


def block_of(layout):
    return (2, 1) if layout._name[-3] == "b" else None


@given(dense=matrices, first=st.sampled_from(SPARSE), second=st.sampled_from(SPARSE))
def test_any_layout_holds_any_matrix_and_becomes_any_other(dense, first, second):
    one = pattern_in(first, places_of_dense(dense, 2), dense.shape, 0, block_of(first))
    array = SparseArray(one, values_at(dense, one).reshape(one.values_shape))
    numpy.testing.assert_array_equal(dense_of(array), dense)
    other = pattern_in(second, one.indices, dense.shape, 0, block_of(second))
    moved = SparseArray(other, values_at(array, other).reshape(other.values_shape))
    numpy.testing.assert_array_equal(dense_of(moved), dense)
    if not one.block:
        numpy.testing.assert_array_equal(dense_of(array.swapaxes(0, 1)), dense.T)


@given(dense=matrices, other=matrices)
def test_sums_of_arrays_are_sums_of_matrices(dense, other):
    if dense.shape != other.shape:
        other = numpy.zeros_like(dense)
    a, b = (
        SparseArray(p, values_at(d, p))
        for d in (dense, other)
        for p in [pattern_in(sparse_coo, places_of_dense(d, 2), d.shape, 0)]
    )
    for made in (a + b, a + other, dense + b, numpy.add(a, b)):
        whole = made if isinstance(made, numpy.ndarray) else dense_of(made)
        numpy.testing.assert_array_equal(whole, dense + other)
    numpy.testing.assert_array_equal(dense_of(a * b), dense * other)
    numpy.testing.assert_array_equal(dense_of(a * other), dense * other)
    numpy.testing.assert_array_equal(dense_of(-a * 3), dense * -3)
    target = dense.copy()
    numpy.add(target, b, target)
    numpy.testing.assert_array_equal(target, dense + other)


def test_coalescing_sorts_and_finds_duplicates():
    pattern = coordinates(numpy.array([[1, 0, 1], [0, 2, 0]]), (2, 3), 0)
    merged, numbers, first = pattern.merging
    assert merged.stored.tolist() == [[0, 1], [2, 0]]
    assert numbers.tolist() == [1, 0, 1]
    assert first.tolist() == [1, 0]
    assert not pattern.is_unique
    assert merged.is_unique
    assert merged.coalesced


@pytest.mark.parametrize("layout", SPARSE)
def test_full_patterns_have_every_place(layout):
    dense = numpy.eye(4, 3)
    one = pattern_in(layout, places_of_dense(dense, 2), dense.shape, 0, block_of(layout))
    full = full_pattern(one)
    assert full.count == 12
    assert full.layout is layout
    assert same_places(full, full_pattern(full))


def test_arrays_refuse_what_they_are_not():
    pattern = coordinates(numpy.array([[0]]), (2,), 0)
    array = SparseArray(pattern, numpy.ones(1))
    with pytest.raises(TypeError, match="to_dense"):
        numpy.asarray(array)
    with pytest.raises(NotImplementedError, match="exp"):
        numpy.exp(array)
    with pytest.raises(NotImplementedError, match="concatenate"):
        numpy.concatenate([array, array])
    assert not hasattr(array, "ctypes")
