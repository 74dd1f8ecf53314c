"""What an operator gives for intervals contains the true value, and so do its gradients.

The true value is that of long floats with 50 digits at the same points; the ends of an interval
have 16. Samples whose branches intervals do not decide are passed over.
"""

import numpy
import pytest

import pullback as torch
from pullback.testing.samples import resolve
from tests.operators.numbers.test_all_operators import NAMES, samples, tried

mpmath = pytest.importorskip("mpmath")
mp, iv = mpmath.mp, mpmath.iv
GROUPS = [NAMES[first::24] for first in range(24)]
# Long floats of 50 digits are rounded, too.
SLACK = mp.mpf(10) ** -40


def _contains(box, value):
    low, high = (mp.make_mpf(end) for end in box._mpi_)
    return mp.isnan(value) or low - SLACK <= value <= high + SLACK


def _checked(name):
    """How many elements of results and gradients were compared."""
    function, count = resolve(torch, name), 0
    for sample, _ in samples(name):
        boxes, true = tried(function, sample, iv.mpf), tried(function, sample, mp.mpf)
        if boxes is None or true is None:
            continue
        for one, exact in zip([*boxes[0], *boxes[1]], [*true[0], *true[1]], strict=True):
            if one is None or one.dtype.numpy.char != "#":
                continue
            found, wanted = (part.detach().numpy() for part in (one, exact))
            assert found.shape == wanted.shape
            for box, value in zip(found.flat, wanted.flat, strict=True):
                assert _contains(box, value), (name, box, value)
            count += found.size
    return count


@pytest.mark.parametrize("names", GROUPS)
def test_enclosures_contain_what_long_floats_give(names):
    with mpmath.workdps(50):
        assert sum(_checked(name) for name in names) > 0


def test_many_operators_take_intervals():
    """The law passes over what is refused: here that is held within bounds."""
    taken = set()
    for name in NAMES:
        for sample, _ in list(samples(name))[:1]:
            if tried(resolve(torch, name), sample, iv.mpf) is not None:
                taken.add(name)
    assert len(taken) >= 300
    assert {"matmul", "tanh", "nn.functional.conv2d", "softmax", "linalg.vector_norm"} <= taken


def test_a_box_without_its_value_is_noticed():
    assert _contains(iv.mpf([1, 2]), mp.mpf("1.5"))
    assert not _contains(iv.mpf([1, 2]), mp.mpf("2.0000001"))
    assert numpy.isfinite(float(SLACK))
