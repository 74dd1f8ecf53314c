"""How far to go along a direction: a line search for the strong Wolfe conditions.

After Nocedal and Wright, "Numerical Optimization", algorithms 3.5 and 3.6: find an interval that
must hold a good step, then narrow it down by cubic interpolation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Point", "cubic_minimum", "strong_wolfe"]

ENOUGH_DESCENT = 1e-4  # of what the slope at the start promises
ENOUGH_FLATTENING = 0.9  # the slope found, at most, as a part of the slope at the start
MOST_TRIALS = 25


class Point(NamedTuple):
    """A step that was tried: its length, and loss, gradient and slope along the line there.

    Slopes in float32 are NumPy's, so that all that is worked out of them is rounded as torch, which
    has tensors there, rounds it. Searches that end by a tolerance end at the same step then.
    """

    t: float
    loss: float
    g: Any
    slope: float


def cubic_minimum(a: Point, b: Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through both points, with their slopes, is least; within bounds.

    The middle, if it has no minimum.
    """
    low, high = bounds or (min(a.t, b.t), max(a.t, b.t))
    if a.t > b.t:
        a, b = b, a
    mixed = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = mixed * mixed - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    root = square**0.5
    part = b.slope + root - mixed
    scale = b.slope - a.slope + 2 * root
    least = b.t - (b.t - a.t) * (part / scale if scale else float("nan"))
    return min(max(least, low), high)


def strong_wolfe(
    at: Callable[[float], Point],
    start: Point,
    first: float,
    width: float,
    most: int = MOST_TRIALS,
    *,
    largest: float = 1.0,
    wolfe: tuple[float, float] = (ENOUGH_DESCENT, ENOUGH_FLATTENING),
) -> tuple[Point, int]:
    """The best step found, and how many were tried; `at(t)` tries the step of length `t`.

    `start` is the point of length 0, `first` the length to begin with. An interval is narrow enough
    where it moves the `largest` element of the direction by less than `width`, and after the first
    at most `most` further steps are tried.
    """
    line = _Line(at, start, *wolfe)
    most = min(most, MOST_TRIALS)
    point, previous, trials = at(first), start, 1
    while trials <= most:
        if line.too_high(point) or (trials > 2 and point.loss >= previous.loss):
            return _narrowed(line, [previous, point], trials, width, largest, most)
        if line.flat_enough(point):
            return point, trials
        if point.slope >= 0:
            return _narrowed(line, [previous, point], trials, width, largest, most)
        bounds = point.t + 0.01 * (point.t - previous.t), point.t * 10
        further = cubic_minimum(previous, point, bounds)
        previous, point = point, at(further)
        trials += 1
    return (start if start.loss <= point.loss else point), trials


class _Line(NamedTuple):
    """What is searched along, and what is good enough there."""

    at: Callable[[float], Point]
    start: Point
    descent: float
    flattening: float

    def too_high(self, point: Point) -> bool:
        return bool(point.loss > self.start.loss + self.descent * point.t * self.start.slope)

    def flat_enough(self, point: Point) -> bool:
        return bool(abs(point.slope) <= -self.flattening * self.start.slope)


def _narrowed(
    line: _Line, ends: list[Point], trials: int, width: float, largest: float, most: int
) -> tuple[Point, int]:
    """Take a step inside the interval between `ends` until it is good or the interval is narrow."""
    crept = False
    low = 0 if ends[0].loss <= ends[1].loss else 1
    while trials <= most and abs(ends[1].t - ends[0].t) * largest >= width:
        t, crept = _inside(ends, crept)
        point = line.at(t)
        trials += 1
        if line.too_high(point) or point.loss >= ends[low].loss:
            ends[1 - low] = point
            low = 0 if ends[0].loss <= ends[1].loss else 1
            continue
        done = line.flat_enough(point)
        if not done and point.slope * (ends[1 - low].t - ends[low].t) >= 0:
            ends[1 - low] = ends[low]
        ends[low] = point
        if done:
            break
    return ends[low], trials


def _inside(ends: list[Point], crept: bool) -> tuple[float, bool]:
    """Where to try next, and whether that is suspiciously near an end.

    Twice in a row near an end makes little progress: go a tenth of the interval inside instead.
    """
    left, right = sorted((ends[0].t, ends[1].t))
    t = cubic_minimum(ends[0], ends[1])
    margin = 0.1 * (right - left)
    if min(right - t, t - left) >= margin:
        return t, False
    if not crept and left < t < right:
        return t, True
    return (right - margin if abs(t - right) < abs(t - left) else left + margin), False
