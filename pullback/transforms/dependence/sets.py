"""Sets of input elements, one for each element of a tensor, as a sparse boolean matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from pullback.core.addresses import as_counts
from pullback.core.arrays import Array

__all__ = ["Sets", "spans"]


def spans(starts: Array, counts: Array) -> Array:
    """`starts[0], starts[0] + 1, ...`, then from `starts[1]`, each as many as its count."""
    ends = counts.cumsum()
    total = int(ends[-1]) if ends.size else 0
    return numpy.arange(total) + numpy.repeat(starts - ends + counts, as_counts(counts))


class Sets:
    """Row i holds `members[starts[i] : starts[i + 1]]`, in growing order."""

    __slots__ = ("members", "starts")

    def __init__(self, starts: Array, members: Array) -> None:
        self.starts = starts
        self.members = members

    def __len__(self) -> int:
        return int(self.starts.size) - 1

    @property
    def counts(self) -> Array:
        """How many each set has."""
        return as_counts(numpy.diff(self.starts))

    @property
    def owners(self) -> Array:
        """The row of each member."""
        return numpy.repeat(numpy.arange(len(self)), self.counts)

    @staticmethod
    def empty(count: int) -> Sets:
        """So many sets of nothing."""
        return Sets(numpy.zeros(count + 1, numpy.int64), numpy.zeros(0, numpy.int64))

    @staticmethod
    def of_pairs(count: int, owners: Array, members: Array) -> Sets:
        """So many sets, from pairs in any order, with repetitions."""
        if not members.size:
            return Sets.empty(count)
        width = int(members.max()) + 1
        keys = numpy.unique(owners.astype(numpy.int64, copy=False) * width + members)
        owners = as_counts(keys // width)
        starts = numpy.zeros(count + 1, numpy.int64)
        numpy.cumsum(numpy.bincount(owners, minlength=count), out=starts[1:])
        return Sets(starts, keys - owners * width)

    def taken(self, rows: Array) -> Sets:
        """The sets of these rows, one for each."""
        counts = self.counts[rows]
        starts = numpy.zeros(rows.size + 1, numpy.int64)
        numpy.cumsum(counts, out=starts[1:])
        return Sets(starts, self.members[spans(self.starts[rows], counts)])

    def united(self, count: int, owners: Array, rows: Array) -> Sets:
        """So many sets: that of an owner is the union of the rows that are paired with it."""
        found = self.taken(rows)
        return Sets.of_pairs(count, numpy.repeat(owners, found.counts), found.members)


def union(count: int, parts: Sequence[Sets]) -> Sets:
    """The unions of sets, row by row."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return Sets.empty(count)
    owners = numpy.concatenate([one.owners for one in parts])
    return Sets.of_pairs(count, owners, numpy.concatenate([one.members for one in parts]))
