"""How elements belong to components: where each begins and how long it is."""

from __future__ import annotations

import math
from functools import cached_property
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy
from numpy.lib.stride_tricks import as_strided

from pullback.core.addresses import as_counts
from pullback.core.arrays import Array
from pullback.core.layout import jagged, nested_strided
from pullback.core.tensor import Tensor, wrap
from pullback.operators.nested.symbol import RaggedSize

__all__ = ["Jagged", "Rows", "Shapes", "rows_of"]

_numbers = count(1)
# By the identity of offsets and lengths, which rows keep alive.
_known: WeakValueDictionary[tuple[int, int], Rows] = WeakValueDictionary()


class Rows:
    """Components along one dimension: component i is rows `starts[i]` to `starts[i] + lengths[i]`.

    There may be rows that belong to none (holes), where lengths are given besides offsets.
    """

    __slots__ = (
        *("__dict__", "__weakref__", "given_lengths", "lengths", "offsets", "starts", "symbol"),
    )

    def __init__(self, offsets: Tensor, lengths: Tensor | None = None) -> None:
        self.offsets = offsets
        self.given_lengths = lengths
        numbers = offsets._array
        self.starts: Array = numbers[:-1]
        self.lengths: Array = numpy.diff(numbers) if lengths is None else lengths._array
        # The size of the dimension; it knows a mark of its own, not the rows that hold it.
        self.symbol = RaggedSize(f"j{next(_numbers)}", object())
        _known[id(offsets), id(lengths)] = self

    @property
    def count(self) -> int:
        """How many components there are."""
        return len(self.starts)

    @cached_property
    def total(self) -> int:
        """How many rows belong to a component."""
        return int(self.lengths.sum())

    @cached_property
    def longest(self) -> int:
        """The length of the longest component."""
        return int(self.lengths.max(initial=0))

    @cached_property
    def shortest(self) -> int:
        """The length of the shortest component."""
        return int(self.lengths.min()) if self.count else 0

    def fills(self, rows: int) -> bool:
        """Whether components fill `rows` rows, each beginning where another ends."""
        return self.given_lengths is None and self.total == rows

    @cached_property
    def numbers(self) -> Array:
        """The component of each row that belongs to one."""
        return numpy.repeat(numpy.arange(self.count), as_counts(self.lengths))

    @cached_property
    def positions(self) -> Array:
        """Where each of these rows stands in its component."""
        return numpy.arange(self.total) - numpy.repeat(self._begun, as_counts(self.lengths))

    @cached_property
    def places(self) -> Array:
        """Where each of these rows is."""
        return self.positions + numpy.repeat(self.starts, as_counts(self.lengths))

    @cached_property
    def _begun(self) -> Array:
        return numpy.cumsum(self.lengths) - self.lengths

    @cached_property
    def segments(self) -> tuple[Array, Array]:
        """The components that have rows, and where each begins among all rows that belong to one.

        `reduceat` gives an element, not zero, where a segment is empty; so those are left out.
        """
        filled = numpy.flatnonzero(self.lengths)
        return filled, self._begun[filled]

    @cached_property
    def packed(self) -> Rows:
        """The same components without holes."""
        if self.given_lengths is None and (not self.count or self.starts[0] == 0):
            return self
        offsets = numpy.zeros(self.count + 1, numpy.int64)
        numpy.cumsum(self.lengths, out=offsets[1:])
        return Rows(wrap(offsets))

    def same_lengths(self, other: Rows) -> bool:
        """Whether components are as long as another's; compared once."""
        if self is other:
            return True
        known = self._compared.get(other)
        if known is None:
            known = self._compared[other] = bool(numpy.array_equal(self.lengths, other.lengths))
        return known

    @cached_property
    def _compared(self) -> WeakKeyDictionary[Rows, bool]:
        return WeakKeyDictionary()


def rows_of(offsets: Tensor, lengths: Tensor | None = None) -> Rows:
    """The rows that belong to these very tensors, which they keep."""
    return _known.get((id(offsets), id(lengths))) or Rows(offsets, lengths)


class Jagged:
    """Components that differ in dimension `dim` alone, joined there in one array of values."""

    __slots__ = ("dim", "rows")

    layout = jagged

    def __init__(self, rows: Rows, dim: int = 1) -> None:
        self.rows = rows
        self.dim = dim

    @property
    def axis(self) -> int:
        """The dimension of values in which components are joined."""
        return self.dim - 1

    @property
    def count(self) -> int:
        """How many components there are."""
        return self.rows.count

    def shape(self, values: Any) -> tuple[Any, ...]:
        """The sizes of a tensor of this form on these values."""
        sizes = list(values.shape)
        sizes[self.dim - 1] = self.rows.symbol
        return (self.rows.count, *sizes)

    def elements(self, values: Any) -> int:
        """How many elements belong to components."""
        sizes = list(values.shape)
        sizes[self.dim - 1] = self.rows.total
        return int(math.prod(sizes))

    def is_filled(self, values: Any) -> bool:
        """Whether every element belongs to a component."""
        return self.rows.fills(values.shape[self.axis])

    def components(self, values: Array) -> list[Array]:
        """The components, as views of an array of values."""
        lines = values.swapaxes(0, self.axis)
        pieces = zip(self.rows.starts.tolist(), self.rows.lengths.tolist(), strict=True)
        return [lines[a : a + n].swapaxes(0, self.axis) for a, n in pieces]

    def at(self, dim: int) -> Jagged:
        """The same components along another dimension."""
        return self if dim == self.dim else Jagged(self.rows, dim)


class Shapes:
    """Components of any shapes of one rank, in flat values.

    Packed ones stand one after the other. Those of a view begin at `starts` and have `strides`,
    both counted in elements.
    """

    __slots__ = ("offsets", "sizes", "starts", "strides")

    layout = nested_strided

    def __init__(
        self,
        sizes: tuple[tuple[int, ...], ...],
        strides: tuple[tuple[int, ...], ...] | None = None,
        starts: tuple[int, ...] = (),
    ) -> None:
        self.sizes = sizes
        self.strides = strides
        self.starts = starts
        self.offsets = [0]
        for size in sizes:
            self.offsets.append(self.offsets[-1] + math.prod(size))

    @property
    def packed(self) -> Shapes:
        """Components of the same sizes, one after the other."""
        return self if self.strides is None else Shapes(self.sizes)

    def is_same(self, other: Shapes) -> bool:
        """Whether components are of the same sizes at the same places."""
        return self is other or (
            (self.sizes, self.strides, self.starts) == (other.sizes, other.strides, other.starts)
        )

    def covers(self, values: Any) -> bool:
        """Whether components are all of the values."""
        return self.offsets[-1] == len(values)

    def components(self, values: Array) -> list[Array]:
        """The components, as views of an array of values."""
        if self.strides is None:
            pieces = zip(self.offsets, self.offsets[1:], self.sizes, strict=False)
            return [values[a:b].reshape(size) for a, b, size in pieces]
        step = values.itemsize
        return [
            as_strided(values[start:], size, tuple(one * step for one in strides))
            for size, strides, start in zip(self.sizes, self.strides, self.starts, strict=True)
        ]

    @property
    def count(self) -> int:
        """How many components there are."""
        return len(self.sizes)

    def shape(self, values: Any) -> tuple[Any, ...]:
        """The sizes; a symbol where they differ."""
        shape: list[Any] = [self.count]
        for dim, lengths in enumerate(zip(*self.sizes, strict=True)):
            alike = len(set(lengths)) == 1
            shape.append(lengths[0] if alike else RaggedSize(f"irregular{dim + 1}", lengths))
        return tuple(shape)

    def elements(self, values: Any) -> int:
        """How many elements there are."""
        return self.offsets[-1]

    def is_filled(self, values: Any) -> bool:
        """Whether components stand one after the other, with nothing between them."""
        return self.strides is None
