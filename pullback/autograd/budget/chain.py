"""The best schedule for a chain: which values to keep, found by dynamic programming.

Values 1 to n are each computed from the one before, and asked for from the last to the first. With
`best[s, t, m]` the least time to serve s to t when s - 1 is there and m slots are free, the first
value k that is kept on the way splits the stretch: compute s to k, serve what follows k with the
room that is left, then what comes before k with all of it. This is the recurrence of Revolve
(Griewank and Walther) for values of different sizes and times (Beaumont and others, 2019).
"""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy

__all__ = ["LONGEST", "Chain"]

LONGEST = 128  # values; a table has the square of that, times the slots
_SLOTS = 96


class Chain:
    """A schedule for values of these bytes, seconds and rooms under a bound."""

    def __init__(
        self, sizes: list[int], seconds: list[float], rooms: list[int], bound: int
    ) -> None:
        self.count = count = len(sizes)
        # Sizes that have a common measure lose nothing by rounding.
        exact = gcd(*sizes)
        self.unit = exact if bound // exact <= 2 * _SLOTS else -(-bound // _SLOTS)
        self.slots = bound // self.unit
        self.sizes = [0, *(-(-size // self.unit) for size in sizes)]
        rooms_of = [0, *(-(-room // self.unit) for room in rooms)]
        self._sums = numpy.cumsum([0.0, *seconds])
        shape = (count + 2, count + 2, self.slots + 1)
        best = numpy.zeros(shape)
        self.choice = numpy.zeros(shape, numpy.int16)  # 0: it cannot be done
        for length in range(count):
            for first in range(1, count - length + 1):
                self._fill(best, first, first + length, rooms_of)
        self.forward = self._forward(best)
        self.seconds = float(best[1, count, self.slots])  # with nothing kept at first

    def _fill(self, best: Any, first: int, last: int, rooms: list[int]) -> None:
        """The least time for the values first to last, for each number of free slots."""
        ks = numpy.arange(first, last + 1)
        free = numpy.arange(self.slots + 1)
        sizes = numpy.array(self.sizes[first : last + 1])[:, None]
        needed = numpy.array(rooms[first : last + 1])
        needed[0] -= self.sizes[first - 1]  # which is there, and counted
        needed = numpy.maximum(numpy.maximum.accumulate(needed)[:, None], sizes)
        left = free[None, :] - sizes
        after = best[ks + 1, last][numpy.arange(len(ks))[:, None], numpy.maximum(left, 0)]
        before = best[first, ks - 1]
        walked = (self._sums[first : last + 1] - self._sums[first - 1])[:, None]
        total = numpy.where(free[None, :] >= needed, walked + after + before, numpy.inf)
        chosen = total.argmin(0)
        best[first, last] = least = total[chosen, free]
        self.choice[first, last] = numpy.where(numpy.isfinite(least), ks[chosen], 0)

    def kept_on_way(self, first: int, last: int, room: int) -> list[int]:
        """Of the values first to last, which to keep while the last is computed."""
        free, kept = min(room // self.unit, self.slots), []
        while first <= last and free >= 0:
            k = int(self.choice[first, last, free])
            if not k:
                break
            kept.append(k)
            free -= self.sizes[k]
            first = k + 1
        return kept

    def _forward(self, best: Any) -> list[int]:
        """Which values to keep as the program runs, whose computing costs nothing more."""
        count, slots = self.count, self.slots
        free = numpy.arange(slots + 1)
        least = numpy.zeros((count + 2, slots + 1))
        choice: Any = numpy.zeros((count + 2, slots + 1), numpy.int16)
        for first in range(count, 0, -1):
            options = [best[first, count]]
            for k in range(first, count + 1):
                left = free - self.sizes[k]
                rest = least[k + 1, numpy.maximum(left, 0)] + best[first, k - 1]
                options.append(numpy.where(left >= 0, rest, numpy.inf))
            table = numpy.array(options)
            chosen = table.argmin(0)
            least[first] = table[chosen, free]
            choice[first] = chosen  # 0: none; else 1 + k - first
        kept, first, now = [], 1, slots
        while first <= count and choice[first, now]:
            k = first + int(choice[first, now]) - 1
            kept.append(k)
            now -= self.sizes[k]
            first = k + 1
        return kept
