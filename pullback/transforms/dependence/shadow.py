"""Shadow memory: for each element of the arrays of a run, the input elements it depends on.

Kept by memory and not by tensor, so views and writes in place need no thought: a view reads what
lies at its elements, a write replaces it.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.transforms.dependence.sets import Sets, union

__all__ = ["Shadow"]


def _owner(array: Array) -> Array:
    """The array whose memory this is."""
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return array


class _Memory:
    """One piece of memory, in cells as large as its elements were when it was first met."""

    __slots__ = ("cell", "owner", "sets", "start")

    def __init__(self, owner: Array, cell: int) -> None:
        self.owner = owner  # kept alive, so that no other takes its place
        low, high = _bounds(owner)
        self.start = low
        self.cell = cell
        self.sets = Sets.empty(-(-(high - low) // cell))

    def cells(self, array: Array) -> Array:
        """The cells of each element, a row for each."""
        offset = array.__array_interface__["data"][0] - self.start
        places = numpy.full(array.shape, offset, numpy.int64)
        for dim, (length, stride) in enumerate(zip(array.shape, array.strides, strict=True)):
            shape = [1] * array.ndim
            shape[dim] = length
            places += (numpy.arange(length) * stride).reshape(shape)
        flat = places.reshape(-1)
        first = flat // self.cell
        width = max(1, array.dtype.itemsize // self.cell)
        return first[:, None] + numpy.arange(width)


def _bounds(array: Array) -> tuple[int, int]:
    low = high = array.__array_interface__["data"][0]
    if array.size:
        for length, stride in zip(array.shape, array.strides, strict=True):
            low += min(0, stride * (length - 1))
            high += max(0, stride * (length - 1))
        high += array.dtype.itemsize
    return low, high


class Shadow:
    """What is known of all memory that was met."""

    def __init__(self) -> None:
        self._memories: dict[int, _Memory] = {}

    def read(self, array: Array) -> Sets | None:
        """The sets of an array's elements in order; None if nothing of it depends on the inputs."""
        memory = self._memories.get(id(_owner(array)))
        if memory is None or not memory.sets.members.size:
            return None
        cells = memory.cells(array)
        if cells.shape[1] == 1:
            found = memory.sets.taken(cells[:, 0])
        else:
            owners = numpy.repeat(numpy.arange(cells.shape[0]), cells.shape[1])
            found = memory.sets.united(cells.shape[0], owners, cells.reshape(-1))
        return found if found.members.size else None

    def write(self, array: Array, sets: Sets | None) -> None:
        """Say what the elements of an array depend on now."""
        owner = _owner(array)
        memory = self._memories.get(id(owner))
        if memory is None:
            if sets is None:
                return
            memory = self._memories[id(owner)] = _Memory(owner, array.dtype.itemsize)
        sets = Sets.empty(array.size) if sets is None else sets
        cells = memory.cells(array)
        wide = numpy.repeat(numpy.arange(cells.shape[0]), cells.shape[1])
        flat = cells.reshape(-1)
        found = sets.taken(wide)
        parts = [Sets.of_pairs(len(memory.sets), numpy.repeat(flat, found.counts), found.members)]
        kept = numpy.ones(len(memory.sets), bool)
        if array.dtype.itemsize >= memory.cell:  # else a part of a cell: what was there stays
            kept[flat] = False
        old = memory.sets
        stays = numpy.repeat(kept, old.counts)
        parts.append(Sets.of_pairs(len(old), old.owners[stays], old.members[stays]))
        memory.sets = union(len(old), parts)


def broadcast_places(shape: tuple[int, ...], to: tuple[int, ...]) -> Array | None:
    """For each element of the larger shape the one of the smaller that stands there; or None."""
    try:
        numbers: Any = numpy.arange(int(numpy.prod(shape))).reshape(shape)
        return numpy.broadcast_to(numbers, to).reshape(-1)
    except ValueError:
        return None
