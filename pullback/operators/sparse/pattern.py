"""Where the specified elements of a sparse tensor are: the same object for all tensors that agree.

A pattern never changes and its memory is nobody else's, so what follows from it (flat positions,
sorted order, rows for products) is worked out once and kept. Whatever the layout, the values of a
tensor are rows of `dense_shape` in one order, and `indices` has a column of coordinates for each;
blocks count as their elements.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy

from pullback.core.addresses import as_counts
from pullback.core.arrays import Array
from pullback.core.layout import layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr

__all__ = ["BLOCKED", "BY_ROW", "COMPRESSED", "Pattern", "compressed", "coordinates", "repeated"]

COMPRESSED = (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
BLOCKED = (sparse_bsr, sparse_bsc)
BY_ROW = (sparse_csr, sparse_bsr)


class Pattern:
    """Layout, shape and places; made by `coordinates` and `compressed`."""

    def __init__(self, layout: layout, shape: tuple[int, ...], dense_dim: int) -> None:
        self.layout = layout
        self.shape = shape
        self.dense_dim = dense_dim
        kept = len(shape) - dense_dim
        self.sparse_shape, self.dense_shape = shape[:kept], shape[kept:]
        # Whether places are sorted and none is there twice, as far as it is known.
        self.coalesced = False
        self.stored: Array = None  # coordinates as given; None for compressed layouts
        self.compressed: Array = None
        self.plain: Array = None
        self.block: tuple[int, ...] = ()

    @property
    def index_arrays(self) -> tuple[Array, ...]:
        """What it was made of: coordinates, or compressed and plain indices."""
        return (self.compressed, self.plain) if self.stored is None else (self.stored,)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions in front of a compressed matrix."""
        return () if self.stored is not None else self.compressed.shape[:-1]

    @property
    def sparse_dim(self) -> int:
        """How many dimensions the indices are about; of a compressed tensor always two."""
        return len(self.stored) if self.stored is not None else 2

    @property
    def nnz(self) -> int:
        """How many values, blocks or rows of values are kept; of each matrix of a batch."""
        return int((self.plain if self.stored is None else self.stored).shape[-1])

    @property
    def values_shape(self) -> tuple[int, ...]:
        """The shape that values have in this layout."""
        return (*self.batch_shape, self.nnz, *self.block, *self.dense_shape)

    @property
    def count(self) -> int:
        """How many rows of values there are, elements of blocks counted each."""
        return int(math.prod((*self.batch_shape, self.nnz, *self.block)))

    @property
    def flat_shape(self) -> tuple[int, ...]:
        """The shape of values as rows, one for each column of `indices`."""
        return (self.count, *self.dense_shape)

    @cached_property
    def indices(self) -> Array:
        """The coordinates of each row of values: a row for each sparse or batch dimension."""
        return self.stored if self.stored is not None else _expanded(self)

    @cached_property
    def keys(self) -> Array:
        """The place of each row of values as one number."""
        return flat_places(self.indices, self.sparse_shape)

    @cached_property
    def is_unique(self) -> bool:
        """Whether no place is there twice."""
        if self.coalesced or self.stored is None:
            return True
        return self.merging[0].count == self.count

    @cached_property
    def merging(self) -> tuple[Pattern, Array, Array]:
        """The coalesced pattern, the number in it of each row, and a row for each of its places."""
        keys = self.keys
        if self.stored is not None and self.coalesced:
            numbers = numpy.arange(self.count)
            return self, numbers, numbers
        found, first, inverse = numpy.unique(keys, return_index=True, return_inverse=True)
        merged = coordinates(self.indices[:, first], self.shape, self.dense_dim, coalesced=True)
        vars(merged)["keys"] = found
        return merged, inverse.reshape(-1), first

    @cached_property
    def without_duplicates(self) -> tuple[Pattern, Array | None]:
        """A pattern with each place once, and which rows to take; None: all, as they are."""
        if self.is_unique:
            return self, None
        merged, _, first = self.merging
        return merged, first

    @cached_property
    def by_row(self) -> tuple[Array, Array, Array | None]:
        """Of a matrix: where rows start, columns, and the order of values (None: as they are)."""
        if self.layout is sparse_csr:
            return self.compressed, self.plain, None
        rows, columns = self.indices
        order = None
        if not (self.stored is not None and self.coalesced):
            order = numpy.argsort(rows, kind="stable")
            rows, columns = rows[order], columns[order]
        return compress(rows, self.shape[0]), columns, order

    @cached_property
    def transposed(self) -> Pattern:
        """Of a matrix: rows as columns, values in the same order."""
        if self.stored is None:
            made = compressed(
                _TRANSPOSED[self.layout],
                self.compressed,
                self.plain,
                (*self.batch_shape, *self.sparse_shape[:-3:-1], *self.dense_shape),
                self.block[::-1],
            )
            if not self.block:  # blocks are transposed too, so that their elements move
                vars(made)["indices"] = self.indices[[*range(len(self.batch_shape)), -1, -2]]
        else:
            shape = (*self.shape[1::-1], *self.shape[2:])
            made = coordinates(self.stored[[1, 0]], shape, self.dense_dim)
        return made

    @cached_property
    def as_coordinates(self) -> Pattern:
        """The same places, one by one, in the same order."""
        if self.stored is not None:
            return self
        made = coordinates(self.indices, self.shape, self.dense_dim)
        made.coalesced = self.layout is sparse_csr and self._is_sorted
        return made

    @property
    def matrix(self) -> Pattern:
        """The same places with values in the same order, in a layout whose transpose keeps it."""
        return self.as_coordinates if self.block else self

    @property
    def _is_sorted(self) -> bool:
        return bool((numpy.diff(self.keys) > 0).all())


_TRANSPOSED = {
    sparse_csr: sparse_csc,
    sparse_csc: sparse_csr,
    sparse_bsr: sparse_bsc,
    sparse_bsc: sparse_bsr,
}


def coordinates(
    indices: Array, shape: tuple[int, ...], dense_dim: int, *, coalesced: bool = False
) -> Pattern:
    """A pattern of coordinates, a column each.

    Places are compared as their numbers in the dense tensor, so these have to be 64-bit ints.
    """
    if math.prod(shape) >= 2**63:
        raise RuntimeError(
            f"A sparse tensor of size {shape} stands for more elements than a 64-bit int can count."
        )
    made = Pattern(sparse_coo, shape, dense_dim)
    made.stored = indices
    made.coalesced = coalesced or indices.shape[1] < 2
    return made


def repeated(pattern: Pattern, size: int) -> Pattern:
    """The coordinates once for each of so many examples, whose number comes first."""
    numbers = numpy.repeat(numpy.arange(size), pattern.nnz)
    indices = numpy.concatenate([numbers[None], numpy.tile(pattern.stored, (1, size))])
    shape = (size, *pattern.shape)
    return coordinates(indices, shape, pattern.dense_dim, coalesced=pattern.coalesced)


def compressed(
    layout: layout, starts: Array, plain: Array, shape: tuple[int, ...], block: tuple[int, ...] = ()
) -> Pattern:
    """A pattern of compressed rows or columns, of elements or of blocks."""
    made = Pattern(layout, shape, len(shape) - starts.ndim - 1)
    made.compressed, made.plain, made.block = starts, plain, block
    return made


def with_indices(pattern: Pattern, indices: tuple[Array, ...]) -> Pattern:
    """The same pattern with other indices in the place of its own."""
    if pattern.stored is None:
        starts, plain = indices
        return compressed(pattern.layout, starts, plain, pattern.shape, pattern.block)
    made = coordinates(indices[0], pattern.shape, pattern.dense_dim)
    made.coalesced = pattern.coalesced
    return made


def numbered_like(pattern: Pattern, own: Pattern) -> Pattern:
    """A compressed pattern with indices of another's dtype, where that is compressed too."""
    if pattern.stored is not None or own.stored is not None:
        return pattern
    wanted = own.compressed.dtype
    if pattern.compressed.dtype == wanted:
        return pattern
    return with_indices(pattern, tuple(one.astype(wanted) for one in pattern.index_arrays))


def declared(pattern: Pattern, *, coalesced: bool) -> Pattern:
    """A pattern of which somebody says whether it is sorted, with each place once."""
    made = coordinates(pattern.stored, pattern.shape, pattern.dense_dim)
    made.coalesced = coalesced
    return made


def emptied(pattern: Pattern) -> Pattern:
    """A pattern of the same layout and shape that specifies nothing."""
    if pattern.stored is not None:
        none = numpy.zeros((len(pattern.stored), 0), numpy.int64)
        return coordinates(none, pattern.shape, pattern.dense_dim, coalesced=True)
    starts = numpy.zeros_like(pattern.compressed)
    return compressed(pattern.layout, starts, pattern.plain[..., :0], pattern.shape, pattern.block)


def same_places(a: Pattern, b: Pattern) -> bool:
    """Whether values of one are values of the other, as they stand."""
    if a is b:
        return True
    if a.shape != b.shape or a.layout is not b.layout or a.values_shape != b.values_shape:
        return False
    if a.stored is not None:
        return a.stored is b.stored or bool((a.stored == b.stored).all())
    return bool((a.compressed == b.compressed).all() and (a.plain == b.plain).all())


def flat_places(indices: Array, shape: tuple[int, ...]) -> Array:
    """Coordinates as numbers that count elements in row-major order."""
    keys = numpy.zeros(indices.shape[1], numpy.int64)
    for row, size in zip(indices, shape, strict=True):
        keys *= size
        keys += row
    return keys


def from_flat_places(keys: Array, shape: tuple[int, ...]) -> Array:
    """The coordinates of numbered elements."""
    if not shape:
        return numpy.zeros((0, len(keys)), numpy.int64)
    return numpy.stack(numpy.unravel_index(keys, shape)).astype(numpy.int64, copy=False)


def compress(rows: Array, size: int) -> Array:
    """Where each of `size` rows starts among sorted row numbers, and where the last ends."""
    starts = numpy.zeros(size + 1, numpy.int64)
    numpy.cumsum(numpy.bincount(as_counts(rows), minlength=size), out=starts[1:])
    return starts


def _expanded(pattern: Pattern) -> Array:
    """The coordinates of a compressed pattern's elements, in the order of its values."""
    starts, plain, block = pattern.compressed, pattern.plain, pattern.block
    batches = int(math.prod(pattern.batch_shape))
    lines = starts.shape[-1] - 1
    lengths = numpy.diff(starts.reshape(batches, -1), axis=1).reshape(-1)
    line = numpy.tile(numpy.arange(lines, dtype=numpy.int64), batches).repeat(as_counts(lengths))
    other = plain.reshape(-1).astype(numpy.int64, copy=False)
    row, column = (line, other) if pattern.layout in BY_ROW else (other, line)
    number = numpy.arange(batches, dtype=numpy.int64).repeat(pattern.nnz)
    if block:
        shape = (len(row), *block)
        inside = numpy.indices(block)
        row = (row[:, None, None] * block[0] + inside[0]).reshape(-1)
        column = (column[:, None, None] * block[1] + inside[1]).reshape(-1)
        number = numpy.broadcast_to(number[:, None, None], shape).reshape(-1)
    if not pattern.batch_shape:
        return numpy.stack([row, column])
    return numpy.stack([*numpy.unravel_index(number, pattern.batch_shape), row, column])
