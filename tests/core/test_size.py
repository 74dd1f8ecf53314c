"""Size, the shape of a tensor."""

import copy
import math
import pickle

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback.core.size import Size, size_of

shapes = st.lists(st.integers(0, 9), max_size=5)


class Five:
    def __index__(self):
        return 5


@given(shapes)
def test_size_is_its_tuple(shape):
    size = Size(shape)
    assert size == tuple(shape)
    assert hash(size) == hash(tuple(shape))
    assert size.numel() == math.prod(shape)
    assert repr(size) == str(size) == f"torch.Size({shape})"
    assert size_of(tuple(shape)) == size


@given(shapes, shapes, st.slices(5), st.integers(0, 3))
def test_slices_sums_and_multiples_are_sizes(a, b, part, times):
    size = Size(a)
    for result, expected in [
        (size[part], a[part]),
        (size + tuple(b), a + b),
        (tuple(b) + size, b + a),
        (size + Size(b), a + b),
        (size * times, a * times),
        (times * size, a * times),
    ]:
        assert type(result) is Size
        assert result == tuple(expected)


def test_an_element_is_a_plain_int():
    size = Size([numpy.int64(2), True, Five()])
    assert size == (2, 1, 5)
    assert [type(n) for n in (size[0], size[-2], size[2])] == [int, int, int]


def test_size_takes_any_iterable_or_nothing():
    assert Size() == ()
    assert Size().numel() == 1
    assert Size(range(3)) == (0, 1, 2)
    assert Size(n for n in (4, 5)) == (4, 5)


@pytest.mark.parametrize("bad", [2.0, "a", None, numpy.float32(2), (1,)], ids=repr)
def test_an_element_that_is_no_int_is_refused_by_its_position(bad):
    with pytest.raises(TypeError, match=f"of type {type(bad).__name__} at position 1"):
        Size([2, bad])
    other = (bad,)
    with pytest.raises(TypeError, match="at position 1"):
        Size([2]) + other
    with pytest.raises(TypeError, match="at position 0"):
        other + Size([2])


def test_a_bare_int_is_refused_with_the_spelling_that_works():
    with pytest.raises(TypeError, match=r"write Size\(\[2\]\)"):
        Size(2)


def test_an_error_inside_the_iterable_is_not_hidden():
    def broken():
        yield 1
        raise TypeError("from inside")

    with pytest.raises(TypeError, match="from inside"):
        Size(broken())


@pytest.mark.parametrize("other", [[1], None, 1], ids=repr)
def test_only_tuples_can_be_added(other):
    with pytest.raises(TypeError):
        Size([2]) + other
    with pytest.raises(TypeError):
        other + Size([2])


def test_only_whole_numbers_multiply():
    with pytest.raises(TypeError):
        Size([2]) * 2.0


def test_pickle_and_copy_keep_the_class():
    size = Size([2, 3])
    copies = [copy.copy(size), copy.deepcopy(size)]
    copies += [pickle.loads(pickle.dumps(size, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)]
    for other in copies:
        assert type(other) is Size
        assert other == size
