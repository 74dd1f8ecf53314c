"""Drawings of pages: axes with round numbers that take in all values."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullback.autograd.answers.report import Report, lines, round_ticks

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


def luminance(colour):
    """As WCAG defines it, of #rrggbb."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_curves_stand_out_on_light_and_on_dark_paper():
    page = Report("a page", lines("curves", {str(at): [0.0, at] for at in range(8)})).html()
    light, dark = re.findall(r":root \{.*?\}", page, re.S)[:2]
    for scheme in (light, dark):
        paper = luminance(re.search(r"--paper: (#\w+);", scheme)[1])
        curves = re.findall(r"--curve\d: (#\w+);", scheme)
        assert len(curves) == 8
        for curve in curves:
            low, high = sorted((paper, luminance(curve)))
            assert (high + 0.05) / (low + 0.05) > 3  # what WCAG asks of graphics
    assert re.findall(r"stroke: var\(--curve(\d)\)", page) == [str(at) for at in range(8)]
