"""What is measured of pullback alone runs, and is held against its bars."""

import pytest

from benchmarks.compiled import alone
from pullback.compiled.llvm.machine import is_available


def test_a_bar_is_a_limit_or_a_goal():
    one = alone.Measure("seconds", "", 0.6, "s")
    other = alone.Measure("times", "", 1.8, "x", at_most=False)
    assert one.reached(0.5)
    assert not one.reached(0.7)
    assert other.reached(2.0)
    assert not other.reached(1.7)


@pytest.mark.skipif(not is_available(), reason="needs llvmlite")
@pytest.mark.parametrize("number", [0, 2])
def test_measures_print_a_number(number):
    assert 0 < alone._printed(alone.MEASURES[number].text) < 1000
