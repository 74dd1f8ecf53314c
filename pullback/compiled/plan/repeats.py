"""Finds the bodies of loops that Python unrolled: an RNN's steps, a solver's.

A program of many thousand values mostly repeats itself. Where the same stretch of operations comes
again at equal distances, groups are cut there, so that each step of the loop gives the same groups;
groups of equal text are then compiled once and called for each step (`module.py`).
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from pullback.compiled.ir.values import EW, REDUCTIONS, Val

__all__ = ["epochs"]

_FEWEST_VALUES = 600  # of a program; shorter ones compile fast as they are
_WINDOW = 10  # values that must agree for a stretch to be known again
_FEWEST_REPEATS = 5
_LONGEST_PART = 100  # values, at which a long body is cut further


def epochs(values: list[Val]) -> dict[int, int]:
    """Number of the stretch that each value belongs to; empty where nothing repeats."""
    nodes = [v for v in values if not v.is_view and (v.op in EW or v.op in REDUCTIONS)]
    if len(nodes) < _FEWEST_VALUES:
        return {}
    signs = [hash((v.op, v.dtype, v.shape, _plain(v.attr), tuple(_sort(i) for i in v.ins)))
             for v in nodes]  # fmt: skip
    cuts = _cuts(signs)
    if not cuts:
        return {}
    found: dict[int, int] = {}
    epoch, since = 0, 0
    for place, v in enumerate(nodes):
        if place in cuts or place - since >= _LONGEST_PART:
            epoch, since = epoch + 1, place
        found[v.id] = epoch
    return found


def _plain(attr: Any) -> Any:
    return attr if isinstance(attr, int | float | str | tuple) or attr is None else repr(attr)


def _sort(one: Val) -> str:
    return one.op


def _cuts(signs: list[int]) -> set[int]:
    """Where stretches begin."""
    places: dict[Any, list[int]] = {}
    for place in range(len(signs) - _WINDOW + 1):
        places.setdefault(tuple(signs[place : place + _WINDOW]), []).append(place)
    regular = []
    for found in places.values():
        if len(found) < _FEWEST_REPEATS:
            continue
        gaps = Counter(b - a for a, b in pairwise(found))
        gap, count = gaps.most_common(1)[0]
        if count >= 0.8 * (len(found) - 1) and gap >= _WINDOW:
            regular.append((count * gap, -found[0], gap, found))
    regular.sort(reverse=True)
    cuts: set[int] = set()
    covered: list[tuple[int, int]] = []
    for _, _, gap, found in regular:
        start, end = found[0], found[-1] + gap
        if any(start < known_end and known_start < end for known_start, known_end in covered):
            continue
        covered.append((start, end))
        cuts.update(found)
        cuts.add(end)
    return cuts
