"""Sobol points on torch and on pullback: the same numbers."""

import numpy
import pytest

import pullback
from pullback import quasirandom as ours

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dimension", [1, 2, 3, 10, 1111, 21201])
def test_plain_points_and_directions(dimension):
    theirs = torch.quasirandom.SobolEngine(dimension)
    mine = ours.SobolEngine(dimension)
    numpy.testing.assert_array_equal(mine.sobolstate.numpy(), theirs.sobolstate.numpy())
    for count in (1, 3, 8):
        numpy.testing.assert_array_equal(mine.draw(count).numpy(), theirs.draw(count).numpy())
    mine.fast_forward(5)
    theirs.fast_forward(5)
    numpy.testing.assert_array_equal(mine.draw(4).numpy(), theirs.draw(4).numpy())


def test_scrambling_by_the_same_bits(monkeypatch):
    def torchs_bits(high, size, generator=None):
        drawn = torch.randint(high, size, generator=source)
        return pullback.from_numpy(drawn.numpy())

    monkeypatch.setattr(ours, "randint", torchs_bits)
    source = torch.Generator().manual_seed(9)
    theirs = torch.quasirandom.SobolEngine(6, scramble=True, seed=9)
    mine = ours.SobolEngine(6, scramble=True, seed=9)
    numpy.testing.assert_array_equal(mine.draw(17).numpy(), theirs.draw(17).numpy())
    for engine in (mine, theirs):
        engine.reset()
        engine.fast_forward(3)
    numpy.testing.assert_array_equal(mine.draw(2).numpy(), theirs.draw(2).numpy())
