"""Sobol points: evenness, scrambling, going on, and what is refused."""

import sys

import numpy
import pytest

import pullback as torch
from pullback import quasirandom
from pullback.quasirandom import SobolEngine

pytest.importorskip("scipy")


@pytest.mark.parametrize("scramble", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 7, 50])
def test_each_coordinate_of_a_power_of_two_points_is_even(dimension, scramble):
    points = SobolEngine(dimension, scramble, seed=1).draw(64, dtype=torch.float64)
    cells = numpy.sort((points.numpy() * 64).astype(int), axis=0)
    assert (cells == numpy.arange(64)[:, None]).all()


def test_points_come_on_where_the_last_call_ended():
    whole = SobolEngine(5, scramble=True, seed=3).draw(20)
    engine = SobolEngine(5, scramble=True, seed=3)
    parts = [engine.draw(3), engine.draw(1), engine.draw(16)]
    assert torch.equal(torch.cat(parts), whole)
    assert engine.num_generated == 20
    assert torch.equal(engine.reset().fast_forward(4).draw(2), whole[4:6])
    assert torch.equal(engine.fast_forward(0).fast_forward(3).draw(1), whole[9:10])
    assert torch.equal(engine.reset().draw(20), whole)


def test_seeds_determine_the_scrambling():
    one, two, three = (SobolEngine(3, True, seed).draw(4) for seed in (1, 1, 2))
    assert torch.equal(one, two)
    assert not torch.equal(one, three)
    torch.manual_seed(0)
    first = SobolEngine(3, True).draw(2)
    torch.manual_seed(0)
    assert torch.equal(SobolEngine(3, True).draw(2), first)


def test_powers_of_two_stay_balanced():
    engine = SobolEngine(2)
    assert engine.draw_base2(2).shape == (4, 2)
    assert engine.draw_base2(2).shape == (4, 2)
    engine.draw(1)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(2)


def test_arguments():
    out = torch.empty(1)
    assert SobolEngine(2).draw(3, out=out) is out
    assert out.shape == (3, 2)
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match="21201"):
            SobolEngine(dimension)
    with pytest.raises(RuntimeError, match="positive"):
        SobolEngine(1).draw(0)
    with pytest.raises(NotImplementedError, match="int64"):
        SobolEngine(1).draw(1, dtype=torch.int64)
    assert repr(SobolEngine(2, True, 3)) == "SobolEngine(dimension=2, scramble=True, seed=3)"


def test_without_scipy_the_error_names_the_extra(monkeypatch):
    quasirandom._published.cache_clear()
    monkeypatch.setitem(sys.modules, "scipy", None)
    with pytest.raises(ImportError, match=r"pullback\[full\]"):
        SobolEngine(2)
