"""Geometry: what strides say and what views of memory show."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pullback.operators.arrays import strides


@given(st.permutations(range(3)), st.integers(0, 1), st.integers(0, 2))
def test_relaid_geometry_shows_the_same_elements_on_a_row_major_copy(order, row, column):
    base = np.arange(24.0).reshape(2, 3, 4).transpose(order)
    view = base[row % base.shape[0] :, column % base.shape[1] :]
    offset = (strides.address(view) - strides.address(base)) // base.itemsize
    geometry = (view.shape, strides.element_strides(view), offset)
    copy = np.ascontiguousarray(base)
    np.testing.assert_array_equal(strides.on_storage(copy, strides.relaid(geometry, base)), view)


def test_overlap_is_never_missed():
    assert strides.may_overlap(((3, 2), (1, 1), 0))
    assert strides.may_overlap(((3,), (0,), 0))
    assert not strides.may_overlap(((3, 2), (2, 1), 0))
    assert not strides.may_overlap(((1, 2), (0, 1), 0))


def test_extent_counts_the_memory_that_is_touched():
    assert strides.extent(((2, 3), (3, 1), 0)) == 6
    assert strides.extent(((2, 3), (3, 1), 4)) == 10
    assert strides.extent(((0, 3), (3, 1), 4)) == 4
