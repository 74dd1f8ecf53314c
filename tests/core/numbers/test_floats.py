"""What a float in a rule becomes among numbers of more digits."""

import numpy
import pytest

import pullback as torch
from pullback.core.numbers.floats import _CONSTANTS, _Words
from pullback.core.numbers.types import of_class

mpmath = pytest.importorskip("mpmath")


@pytest.mark.parametrize("constant", _CONSTANTS, ids=str)
def test_a_known_constant_is_the_number_that_its_float_rounds(constant):
    """To forty digits another number than the float, and rounded the float, or its neighbour."""
    with mpmath.workdps(40):
        words = _Words(of_class(mpmath.mpf))
        exact = _CONSTANTS[constant](words)
        assert isinstance(exact, mpmath.mpf)
        assert abs(exact - mpmath.mpf(constant)) <= 2 * numpy.spacing(constant)


def test_an_array_of_no_dimensions_is_the_number_in_it():
    kind = of_class(mpmath.mpf)
    for given in (numpy.array(3), numpy.array(0.5), numpy.float64(0.5), numpy.int8(2)):
        made = kind.element(given)
        assert type(made) is mpmath.mpf
        assert made == given
    assert type((torch.tensor([mpmath.mpf(1)]) * 2).tolist()[0]) is mpmath.mpf
