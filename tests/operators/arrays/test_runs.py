"""Short lines are copied as they are, whatever lies between them."""

import numpy
import pytest

from pullback.operators.arrays.runs import put


@pytest.mark.parametrize("char", "?befdFDO")
@pytest.mark.parametrize("width", [1, 3, 16, 200])
def test_lines_go_to_their_places(char, width):
    random = numpy.random.default_rng(width)
    source = random.integers(0, 100, (30, 20, 9, width + 2)).astype(char)[:, :, 1:, 1:-1]
    to = numpy.zeros((20, 30, 8, width + 1), char)
    put(to[..., :width], source.swapaxes(0, 1))
    numpy.testing.assert_array_equal(to[..., :width], source.swapaxes(0, 1))
    assert not to[..., width].any()


def test_elements_apart_other_dtypes_and_numbers_are_copied_too():
    to = numpy.zeros((200, 30))
    put(to, numpy.arange(12000.0).reshape(200, 60)[:, ::2])
    assert to[1, 1] == 62
    put(to[:, ::-1], to.copy())
    assert to[1, -2] == 62
    put(to, numpy.ones((200, 30), "f"))
    assert to.min() == to.max() == 1
    put(to, numpy.arange(30.0))
    assert to[7, 3] == 3
