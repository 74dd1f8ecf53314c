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
    near = [rows.members[rows.starts[i] : rows.starts[i + 1]] for i in range(width)]
    near = [one[one != i] for i, one in enumerate(near)]
    colours = numpy.full(width, -1, numpy.int64)
    for column in numpy.argsort([-one.size for one in near], kind="stable"):
        colours[column] = _smallest_free(numpy.array(_forbidden(int(column), near, colours)))
    return colours


def _forbidden(column: int, near: list[Array], colours: Array) -> list[int]:
    """Colours that would make a path of four columns with two colours, or join two of a colour."""
    taken: list[int] = []
    for middle in near[column]:
        colour = colours[middle]
        if colour >= 0:
            taken.append(int(colour))
        for other in near[middle]:
            if other == column or colours[other] < 0:
                continue
            if colour < 0:
                taken.append(int(colours[other]))
                continue
            ends = near[other]
            if (colours[ends[ends != middle]] == colour).any():
                taken.append(int(colours[other]))
    return taken
