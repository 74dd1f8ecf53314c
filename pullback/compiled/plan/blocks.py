"""Sums over many rows, in blocks: so few rows are added one by one that no digits are lost.

A total that rows are added to in memory has a copy for each block of rows; copies are added up at
the end, with what that rounds off. Together they are a 64th of what is added up.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from pullback.compiled.ir.symbols import moves
from pullback.compiled.ir.values import Val

__all__ = ["CHAIN", "RowBlocks", "blocks_of"]

# Numbers that are added one by one: equal float32 lose 5 units in the last place.
CHAIN = 64
_MOST = CHAIN + CHAIN // 2  # that are not worth two blocks


class RowBlocks(NamedTuple):
    """Which block a row is in: `row // step % size // length`."""

    step: int  # rows between two that are added to the same elements
    size: int  # how many of those there are
    starts_anew: bool  # whether a kept dimension is outside of them
    length: int  # of a block
    # Whether nothing that is added up is outside: then later rows of a total are in later blocks.
    is_outermost: bool

    @property
    def number(self) -> int:
        """How many blocks there are."""
        return (self.size + self.length - 1) // self.length


def blocks_of(
    value: Val, domain: tuple[int, ...], moving: frozenset[int] = frozenset()
) -> RowBlocks | None:
    """How the rows that a total adds up are cut into blocks; None where they are few.

    Where their number is one of the sizes that are others in programs of the same code, few may be
    many there: then there is one block.
    """
    if value.op != "sum" or value.dtype[0] != "f":
        return None
    runs = _runs(value.attr, domain)
    if not runs:
        return None
    longest = max(runs, key=lambda run: run.size)
    others = math.prod(run.size for run in runs) // longest.size
    is_fixed = not any(moves(domain[d], moving) for d in value.attr)
    if is_fixed and longest.size * others <= _MOST:
        return None
    length = max(1, CHAIN // others)
    starts_anew = math.prod(domain[: longest.first]) > 1
    return RowBlocks(longest.step, longest.size, starts_anew, length, longest is runs[-1])


class _Run(NamedTuple):
    """Neighbouring dimensions of rows that are added up."""

    step: int  # rows inside of it
    size: int
    first: int  # dimension


def _runs(dims: tuple[int, ...], domain: tuple[int, ...]) -> list[_Run]:
    """The runs of dimensions of rows, from the innermost on."""
    runs: list[_Run] = []
    inside = 1
    neighbour = False
    for place in range(len(domain) - 2, -1, -1):
        n = domain[place]
        if n == 1:
            continue
        if place in dims and neighbour:
            runs[-1] = _Run(runs[-1].step, runs[-1].size * n, place)
        elif place in dims:
            runs.append(_Run(inside, n, place))
        neighbour = place in dims
        inside *= n
    return runs
