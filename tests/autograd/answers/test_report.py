"""Drawings of pages: axes with round numbers that take in all values."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback.autograd.answers.report import lines, round_ticks

DRAWN = st.floats(-1e300, 1e300)


@given(DRAWN, DRAWN)
def test_ticks_take_in_both_numbers_in_equal_steps(one, other):
    low, high = sorted((one, other))
    ticks = round_ticks(low, high)
    assert 2 <= len(ticks) <= 7
    width = ticks[1] - ticks[0]
    assert width > 0
    assert ticks[0] <= low + 1e-6 * width
    assert ticks[-1] >= high - 1e-6 * width
    for before, after in itertools.pairwise(ticks):
        assert after - before == pytest.approx(width, rel=1e-6, abs=1e-9 * abs(after))


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([0.0, 1.91], ["0", "0.5", "1", "1.5", "2"]),
        ([-5.16, 0.268], ["-6", "-4", "-2", "0", "2"]),
        ([3.0, 3.0], ["0", "1", "2", "3"]),
    ],
)
def test_axes_show_round_numbers(values, shown):
    drawn = lines("a curve", {"loss": values}, places=[1, 150], end=150)
    assert re.findall(r'text-anchor="end">(-?[\d.]+)<', drawn)[: len(shown)] == shown


def test_steps_are_named_first_last_and_round_between():
    drawn = lines("a curve", {"loss": [1.0, 0.0]}, places=[1, 150], end=150)
    assert re.findall(r">(step 1|\d+)</text>", drawn)[-4:] == ["step 1", "50", "100", "150"]
