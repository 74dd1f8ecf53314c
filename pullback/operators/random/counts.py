"""Counts of random events: Poisson and binomial numbers, by the algorithms that torch uses.

How many uniform numbers a count takes depends on them, so each count waits for the one before; a
loop over Python's floats is all there is to do. Small rates multiply uniform numbers until their
product is small enough; large ones squeeze a transformed uniform number (Hörmann 1993: PTRS for
Poisson, BTRS for binomial numbers). Rare binomial events are counted by the waits between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy

from pullback.core.arrays import F32, Array
from pullback.operators.random.stream import Stream

Next = Callable[[], float]
# From here on the spread of counts is below the distance of two float64 numbers.
_COUNTLESS = 2.0**106


def poisson(source: Stream, rates: Array) -> Array:
    """For each rate a count of events, in C order."""
    counts: list[float] = []
    with source.lock:
        draw = source.each_double().__next__
        for rate in rates.reshape(-1).tolist():
            if rate >= _COUNTLESS:
                counts.append(rate)
            elif rate >= 10:
                counts.append(_many_events(rate, draw))
            elif rate > 0:
                counts.append(_few_events(math.exp(-rate), draw))
            else:
                counts.append(0.0)
    return numpy.array(counts).reshape(rates.shape)


def _few_events(limit: float, draw: Next) -> float:
    product = draw()  # at least one: the limit itself may have been rounded to 1
    count = 0
    while product > limit:
        product *= draw()
        count += 1
    return float(count)


def _many_events(rate: float, draw: Next) -> float:
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    accept_below = 0.9277 - 3.6224 / (b - 2)
    while True:
        u, v = draw() - 0.5, draw()
        near = 0.5 - abs(u)
        if not near:  # at the very end, where the transformation has no value
            continue
        k = math.floor((2 * a / near + b) * u + rate + 0.43)
        if near >= 0.07 and v <= accept_below:
            return float(k)
        if k < 0 or v == 0 or (near < 0.013 and v > near):
            continue
        likely = k * math.log(rate) - rate - math.lgamma(k + 1)
        if math.log(v * inverse_alpha / (a / (near * near) + b)) <= likely:
            return float(k)


def binomial(source: Stream, trials: Array, p: Array) -> Array:
    """For each number of trials and probability a count of successes, in C order."""
    counts: list[float] = []
    dtype = numpy.result_type(trials, p)
    with source.lock:
        draw = source.each_double().__next__
        for n, chance in zip(trials.reshape(-1).tolist(), p.reshape(-1).tolist(), strict=True):
            counts.append(_successes(n, chance, draw, dtype))
    return numpy.array(counts).reshape(trials.shape)


def _successes(n: float, p: float, draw: Next, dtype: numpy.dtype) -> float:
    if n <= 0 or p <= 0:
        return 0.0
    if p >= 1:
        return n
    rare = p if p <= 0.5 else 1 - p
    mean = n * rare
    if dtype == F32:  # whether the mean is large is asked in the tensors' own dtype
        mean = float(F32.type(n) * F32.type(rare))
    count = _many_successes(n, rare, draw) if mean >= 10 else _few_successes(n, rare, draw)
    return count if p <= 0.5 else n - count


def _few_successes(n: float, p: float, draw: Next) -> float:
    """Waits between successes, until they no longer fit."""
    scale = 1 / math.log1p(-p)
    waited = 0.0
    count = 0
    while True:
        u = draw()
        waited += math.ceil(math.log(u) * scale) if u else n + 1
        if waited > n:
            return float(count)
        count += 1


def _many_successes(n: float, p: float, draw: Next) -> float:
    deviation = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    accept_below = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    m = math.floor((n + 1) * p)  # the likeliest count
    while True:
        u, v = draw() - 0.5, draw()
        near = 0.5 - abs(u)
        if not near:
            continue
        k = math.floor((2 * a / near + b) * u + n * p + 0.5)
        if near >= 0.07 and v <= accept_below:
            return float(k)
        if k < 0 or k > n or v == 0:
            continue
        likely = (
            (m + 0.5) * math.log((m + 1) / (odds * (n - m + 1)))
            + (n + 1) * math.log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * math.log(odds * (n - k + 1) / (k + 1))
            + _stirling_rest(m)
            + _stirling_rest(n - m)
            - _stirling_rest(k)
            - _stirling_rest(n - k)
        )
        if math.log(v * alpha / (a / (near * near) + b)) <= likely:
            return float(k)


def _stirling_rest(k: float) -> float:
    """By how much log(k!) exceeds Stirling's formula for it."""
    if k < 10:
        formula = (k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi)
        return math.lgamma(k + 1) - formula
    square = (k + 1) ** 2
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
