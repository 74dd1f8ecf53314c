"""NumPy's functions without their first question: the same answers, and known to other devices."""

from types import SimpleNamespace

import numpy
import pytest

from pullback.operators.arrays.direct import DIRECT
from pullback.operators.cuda import kernel_overrides

X = numpy.arange(6.0).reshape(2, 3)
CALLS = {
    "clip": lambda f: f(X, numpy.float64(1), numpy.float64(3)),
    "concatenate": lambda f: f([X, X], 1),
    "where": lambda f: f(X > 2, X, -X),
    "copyto": lambda f: _written(f, lambda out: f(out, X, where=X > 2)),
    "putmask": lambda f: _written(f, lambda out: f(out, X > 2, X)),
}


def _written(function, write):
    out = numpy.zeros((2, 3))
    write(out)
    return out


@pytest.mark.parametrize("name", DIRECT)
def test_direct_function_does_what_the_public_one_does(name):
    direct, public = CALLS[name](DIRECT[name]), CALLS[name](getattr(numpy, name))
    numpy.testing.assert_array_equal(direct, public)
    assert direct.dtype == public.dtype


@pytest.mark.parametrize("name", DIRECT)
def test_direct_function_becomes_the_public_one_of_another_library(name):
    space = SimpleNamespace(copies={}, **{name: (found := object())})
    assert kernel_overrides.on_device(DIRECT[name], space) is found
