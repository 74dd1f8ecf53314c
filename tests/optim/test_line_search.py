"""The line search keeps its promises on functions of one variable."""

import math

import pytest

from pullback.optim.line_search import (
    ENOUGH_DESCENT,
    ENOUGH_FLATTENING,
    Point,
    cubic_minimum,
    strong_wolfe,
)

FUNCTIONS = {
    "parabola": (lambda t: (t - 3) ** 2, lambda t: 2 * (t - 3)),
    "steep": (lambda t: (t - 0.01) ** 4, lambda t: 4 * (t - 0.01) ** 3),
    "wavy": (
        lambda t: 0.1 * t * t - math.sin(2 * t),
        lambda t: 0.2 * t - 2 * math.cos(2 * t),
    ),
    "flat far out": (lambda t: -t / (t * t + 2), lambda t: (t * t - 2) / (t * t + 2) ** 2),
}


@pytest.mark.parametrize("first", [1e-3, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_step_found_satisfies_both_conditions(name, first):
    f, slope = FUNCTIONS[name]

    def at(t):
        return Point(t, f(t), None, slope(t))

    start = at(0.0)
    found, tried = strong_wolfe(at, start, first, 1e-9)
    assert found.loss <= start.loss + ENOUGH_DESCENT * found.t * start.slope
    assert abs(found.slope) <= ENOUGH_FLATTENING * abs(start.slope)
    assert 1 <= tried <= 26


def test_the_cubic_through_two_points_has_its_minimum_found_exactly():
    def at(t):
        return Point(t, t**3 - 3 * t, None, 3 * t * t - 3)

    assert cubic_minimum(at(0.0), at(3.0)) == pytest.approx(1.0)
    assert cubic_minimum(at(3.0), at(0.0)) == pytest.approx(1.0)
    assert cubic_minimum(at(0.0), at(3.0), (2.0, 3.0)) == 2.0


def test_few_trials_end_the_search_early():
    seen = []

    def at(t):
        seen.append(t)
        return Point(t, (t - 3) ** 2, None, 2 * (t - 3))

    start = Point(0.0, 9.0, None, -6.0)
    strong_wolfe(at, start, 1e-6, 1e-9, most=2)
    assert len(seen) == 3
