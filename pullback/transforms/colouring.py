"""Colours for the columns of a sparse matrix, such that one product tells apart all of a colour.

Greedy, the fullest columns first. `columns` is for any matrix: no two columns of a colour have a
nonzero in the same row. `star` is for a symmetric one, and takes fewer: of each pair (i, j) one
entry need be alone of its colour in its row (a star colouring of the matrix's graph, in the sense
of Gebremedhin, Manne and Pothen, "What color is your Jacobian?", 2005).
"""

from __future__ import annotations

import numpy

from pullback.core.arrays import Array
from pullback.transforms.dependence.sets import Sets, spans

__all__ = ["columns", "star"]


def _smallest_free(taken: Array) -> int:
    """The smallest number from 0 that is not among these."""
    if not taken.size:
        return 0
    used = numpy.zeros(int(taken.max()) + 2, bool)
    used[taken] = True
    return int(numpy.argmin(used))


def columns(rows: Sets, width: int) -> Array:
    """A colour for each of so many columns of the matrix with these sets of columns as rows."""
    across = Sets.of_pairs(width, rows.members, rows.owners)
    colours = numpy.full(width, -1, numpy.int64)
    for column in numpy.argsort(-across.counts, kind="stable"):
        met = across.members[across.starts[column] : across.starts[column + 1]]
        others = rows.members[spans(rows.starts[met], rows.counts[met])] if met.size else met
        taken = colours[others]
        colours[column] = _smallest_free(taken[taken >= 0])
    return colours


def star(rows: Sets) -> Array:
    """A colour for each column of a symmetric matrix."""
    width = len(rows)
    if 4 * rows.members.size > width * width:  # there is little to save, and much to look at
        return numpy.arange(width)
    return _Star(rows).coloured()


class _Star:
    """A colouring in which no path of four columns has two colours alone, as it grows."""

    def __init__(self, rows: Sets) -> None:
        near = [
            rows.members[rows.starts[i] : rows.starts[i + 1]].tolist() for i in range(len(rows))
        ]
        self.near = [[one for one in found if one != i] for i, found in enumerate(near)]
        self.colours = [-1] * len(rows)
        # How many neighbours of each colour a column has.
        self.met: list[dict[int, int]] = [{} for _ in self.near]
        # Of a coloured column: the colours of those neighbours that have another of its own colour.
        self.shared: list[set[int]] = [set() for _ in self.near]

    def coloured(self) -> Array:
        """All colours."""
        for column in sorted(range(len(self.near)), key=lambda one: -len(self.near[one])):
            self._paint(column, self._free(column))
        return numpy.array(self.colours, numpy.int64)

    def _free(self, column: int) -> int:
        """The smallest colour that joins no two of a colour and closes no path."""
        taken: set[int] = set()
        for other in self.near[column]:
            colour = self.colours[other]
            taken.add(colour)
            taken.update(self.met[other] if colour < 0 else self.shared[other])
        free = 0
        while free in taken:
            free += 1
        return free

    def _paint(self, column: int, colour: int) -> None:
        self.colours[column] = colour
        for other in self.near[column]:
            of_other = self.colours[other]
            if of_other >= 0 and self.met[column][of_other] >= 2:
                self.shared[other].add(colour)
            count = self.met[other][colour] = self.met[other].get(colour, 0) + 1
            if of_other < 0 or count < 2:
                continue
            for third in self.near[other] if count == 2 else (column,):
                if self.colours[third] == colour:
                    self.shared[third].add(of_other)
