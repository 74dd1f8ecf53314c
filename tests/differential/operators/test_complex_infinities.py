"""Sums in the logarithm of complex numbers that are not finite."""

import itertools
import math

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

PARTS = (-math.inf, -1.0, 0.0, 2.0, math.inf)
NUMBERS = [complex(a, b) for a, b in itertools.product(PARTS, (-2.0, -0.5, 0.0, 0.5, 2.0))]
PAIRS = [*itertools.product(NUMBERS, repeat=2), (complex(math.nan, 1), 1.0)]


def alike(name, ours, theirs):
    """Equal where both are numbers; torch's NaN parts are NaN here."""
    ours, theirs = ours.numpy(), theirs.numpy()
    numpy.testing.assert_allclose(ours, theirs, rtol=1e-6, err_msg=name)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_logaddexp_of_all_pairs(dtype):
    made = []
    for t in (pullback, torch):
        a, b = (t.tensor([pair[i] for pair in PAIRS], dtype=getattr(t, dtype)) for i in (0, 1))
        made.append(t.logaddexp(a, b))
    alike("logaddexp", *made)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_logcumsumexp_of_infinities_in_one_quadrant(dtype):
    lines = [
        [1 + 1j, complex(math.inf, 0.78), complex(math.inf, 0.5), 2.0],
        [complex(math.inf, 2.0), complex(math.inf, 2.5), complex(math.inf, 3.0), 1j],
        [complex(math.inf, -0.5), 1.0, complex(math.inf, -1.0), complex(math.inf, -0.2)],
    ]
    for line in lines:
        ours, theirs = (
            t.logcumsumexp(t.tensor(line, dtype=getattr(t, dtype)), 0) for t in (pullback, torch)
        )
        alike(str(line), ours, theirs)
