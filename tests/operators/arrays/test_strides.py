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


def test_the_address_is_what_numpy_states(tmp_path):
    base = np.arange(24.0).reshape(4, 6)
    fixed = base.copy()
    fixed.flags.writeable = False
    mapped = np.memmap(tmp_path / "file", "f4", "w+", shape=(3, 4))
    pairs = np.zeros(3, [("a", "i4"), ("b", "f8")])
    arrays = [base, base.T, base[1:, ::-2], base[::-1], fixed, mapped, mapped[1:], pairs["b"]]
    arrays += [base[:0], base[2:2, 1:], np.array(1.0), np.array([None, 1]), base.astype("f2")[1:]]
    arrays += [np.ma.masked_array(base)[1:], np.lib.stride_tricks.as_strided(base, (2, 2), (0, 8))]
    for array in arrays:
        assert strides.address(array) == array.__array_interface__["data"][0]
        assert strides.distance(array, base) == strides.address(array) - strides.address(base)


def test_the_address_is_asked_of_numpy_where_its_objects_are_unknown(monkeypatch):
    array = np.arange(6.0)[2:]
    known = strides.address(array)
    monkeypatch.setattr(strides, "_IS_READ", False)
    assert strides.address(array) == known
    assert strides.distance(array, array.base) == 16


def test_an_interpreter_with_another_head_of_objects_is_noticed(monkeypatch):
    assert strides._can_be_read()
    monkeypatch.setattr(strides, "_HEAD", strides._HEAD - 8)
    assert not strides._can_be_read()
