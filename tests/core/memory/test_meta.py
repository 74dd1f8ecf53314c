"""Arrays without data: geometry is theirs, memory is not."""

import numpy
import pytest

from pullback.core.memory import meta
from pullback.operators.arrays.strides import root

F32 = numpy.dtype("float32")


def test_array_has_shape_strides_and_dtype_and_takes_no_memory():
    array = meta.of((10**5, 10**5), F32)
    assert (array.shape, array.strides, array.dtype) == ((10**5, 10**5), (4 * 10**5, 4), F32)
    assert array.nbytes == 4 * 10**10


def test_order_of_dimensions_is_kept():
    assert meta.of((2, 3, 4), F32, (2, 0, 1)).strides == (12, 4, 24)
    array = meta.of((2, 3), F32).T
    assert array.copy("K").strides == array.strides
    assert array.copy().strides == (8, 4)
    assert array.astype("f8").strides == (8, 24)


def test_views_know_their_owner():
    array = meta.of((2, 3), F32)
    part = array[1:, ::2]
    assert type(part) is meta.MetaArray
    assert root(part) is array
    assert root(meta.of((2, 3), F32)) is not array


def test_writes_do_nothing_and_refuse_what_does_not_fit():
    array = meta.of((2, 3), F32)
    array[...] = 1
    array[0] = numpy.ones(3)
    array.fill(3)
    with pytest.raises(ValueError, match="broadcast"):
        array[...] = numpy.ones((2, 4))
    with pytest.raises(IndexError):
        array[5] = 1


@pytest.mark.parametrize(
    "compute",
    [
        lambda a, b: a + b,
        lambda a, b: a * 2,
        lambda a, b: numpy.exp(a),
        lambda a, b: a > b,
        lambda a, b: a.T + 1,
        lambda a, b: a.sum(0),
        lambda a, b: a.max(),
        lambda a, b: a @ a.T,
        lambda a, b: numpy.concatenate([a, a]),
        lambda a, b: numpy.where(a > 0, a, b),
        lambda a, b: numpy.zeros_like(a),
        lambda a, b: a.astype("i8") // 3,
        lambda a, b: numpy.frexp(a)[1],
    ],
)
def test_results_have_the_geometry_that_numpy_gives(compute):
    real = numpy.ones((4, 3), F32), numpy.ones((3,), F32)
    expected = numpy.asarray(compute(*real))
    made = compute(*(meta.like(one) for one in real))
    assert type(made) is meta.MetaArray
    assert (made.shape, made.dtype, made.strides) == (
        expected.shape,
        expected.dtype,
        expected.strides,
    )


def test_shapes_that_do_not_broadcast_are_refused():
    with pytest.raises(ValueError, match="broadcast"):
        meta.of((2,), F32) + meta.of((3,), F32)
    target = meta.of((2,), F32)
    with pytest.raises(ValueError, match="does not fit"):
        numpy.add(target, meta.of((3, 2), F32), out=target)


def test_output_arguments_are_returned():
    target = meta.of((2,), F32)
    assert numpy.add(target, 1, out=target) is target


def test_values_cannot_be_read():
    array = meta.of((1,), F32)
    with pytest.raises(RuntimeError, match="no data"):
        array.item()
    with pytest.raises(NotImplementedError, match="no data"):
        array.tolist()
    with pytest.raises(NotImplementedError, match="no data"):
        bool(array > 0)


def test_too_large_a_size_is_an_error():
    with pytest.raises(RuntimeError, match="address space"):
        meta.of((2**40, 2**30), F32)
