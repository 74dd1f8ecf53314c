"""Questions about arrays that are asked in a shorter way where there are few elements."""

import numpy
import pytest

from pullback.core.arrays import is_wrong, some


@pytest.mark.parametrize("ask", [some, is_wrong])
@pytest.mark.parametrize("size", [0, 1, 7, 256, 257, 5000])
def test_one_element_that_holds_is_found_wherever_it_is(ask, size):
    mask = numpy.zeros(size, bool)
    assert ask(mask) is False
    for place in {0, size // 2, size - 1} if size else ():
        mask[place] = True
        assert ask(mask) is True
        mask[place] = False


@pytest.mark.parametrize("ask", [some, is_wrong])
def test_masks_need_not_be_contiguous_nor_bools_nor_have_dimensions(ask):
    mask = numpy.zeros((4, 6), bool)
    mask[:, 1] = True
    assert ask(mask[:, 1::2])
    assert not ask(mask[:, ::2])
    assert ask(numpy.array([0, 256]))  # whose first byte is 0
    assert ask(numpy.array([0.0, 0.5]))
    assert ask(numpy.True_)
    assert not ask(numpy.array(False))
