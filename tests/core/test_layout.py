"""Layouts and memory formats: names, orders of dimensions, and the memory they lead to."""

import copy
import pickle

import numpy
import pytest

from pullback.core import layout as layouts
from pullback.core.layout import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    empty_in_order,
    empty_like,
    is_in_format,
    layout,
    memory_format,
    order_kept,
    order_of,
    preserve_format,
    strided,
    strides_in_order,
    suggested_format,
)


def test_names_are_singletons_through_pickle_and_copy():
    for one in (strided, channels_last):
        assert pickle.loads(pickle.dumps(one)) is one
        assert copy.deepcopy(one) is one
    assert repr(strided) == "torch.strided"
    assert repr(preserve_format) == "torch.preserve_format"


@pytest.mark.parametrize("kind", [layout, memory_format])
def test_no_further_ones_can_be_made_or_changed(kind):
    with pytest.raises(TypeError, match="cannot be created"):
        kind()
    with pytest.raises(AttributeError, match="read-only"):
        strided.name = "other"


def test_orders_of_formats():
    assert order_of("f", contiguous_format, 3) == (0, 1, 2)
    assert order_of("f", channels_last, 4) == (0, 2, 3, 1)
    assert order_of("f", channels_last_3d, 5) == (0, 2, 3, 4, 1)
    with pytest.raises(RuntimeError, match="4 dimensions, this one has 3"):
        order_of("f", channels_last, 3)
    with pytest.raises(RuntimeError, match="does not say an order"):
        order_of("f", preserve_format, 3)


def test_formats_are_recognised():
    rows = numpy.zeros((2, 3, 4, 5))
    images = empty_in_order(numpy, (2, 3, 4, 5), rows.dtype, (0, 2, 3, 1))
    assert is_in_format(rows, contiguous_format)
    assert not is_in_format(rows, channels_last)
    assert is_in_format(images, channels_last)
    assert suggested_format(rows) is contiguous_format
    assert suggested_format(images) is channels_last
    assert suggested_format(numpy.zeros((2, 3)).T) is contiguous_format


def test_a_copy_keeps_the_order_of_strides():
    array = numpy.zeros((4, 6, 2)).transpose(1, 2, 0)[::2]
    assert order_kept(array) == (2, 0, 1)
    assert [s // 8 for s in empty_like(numpy, array).strides] == [2, 1, 6]


def test_an_expanded_dimension_keeps_its_place():
    rows = numpy.broadcast_to(numpy.zeros((1, 3)), (2, 3))
    columns = numpy.broadcast_to(numpy.zeros((2, 1)), (2, 3))
    assert order_kept(rows) == order_kept(columns) == (0, 1)
    middle = numpy.broadcast_to(numpy.zeros((2, 1, 2)).transpose(2, 1, 0), (2, 3, 2))
    assert [s // 8 for s in empty_like(numpy, middle).strides] == [1, 2, 6]


def test_memory_in_an_order_owns_itself_and_has_no_gaps():
    array = empty_in_order(numpy, (2, 3, 4), numpy.dtype("float32"), (2, 0, 1))
    assert array.base is None
    assert array.transpose(2, 0, 1).flags.c_contiguous
    assert strides_in_order((2, 3, 4), (2, 0, 1)) == (3, 1, 6)
    assert strides_in_order((2, 0, 4), (0, 1, 2)) == (4, 4, 1)


def test_public_names():
    assert set(layouts.__all__) >= {"strided", "layout", "memory_format", "channels_last"}
