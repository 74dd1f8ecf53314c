"""Patterns of each layout: from the places of another one, from a dense tensor, with all places."""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.addresses import as_counts
from pullback.core.arrays import Array
from pullback.core.layout import layout, sparse_coo
from pullback.operators.sparse.pattern import (
    BLOCKED,
    BY_ROW,
    Pattern,
    compressed,
    coordinates,
    flat_places,
    from_flat_places,
)

__all__ = ["full_pattern", "pattern_in", "places_of_dense"]


def pattern_in(
    layout: layout,
    indices: Array,
    shape: tuple[int, ...],
    dense_dim: int,
    blocksize: tuple[int, ...] | None = None,
) -> Pattern:
    """The pattern of a layout that has these places; whole blocks where it has blocks."""
    if layout is sparse_coo:
        indices = _sorted(indices, shape[: len(shape) - dense_dim])
        return coordinates(indices, shape, dense_dim, coalesced=True)
    *batch, row, column = indices
    block = _block(layout, blocksize, shape, dense_dim)
    if block:
        row, column = row // block[0], column // block[1]
    line, other = (row, column) if layout in BY_ROW else (column, row)
    lines, across = _lines(layout, shape, dense_dim, block)
    sizes = (*shape[: len(shape) - dense_dim - 2], lines, across)
    columns = _sorted(numpy.stack([*batch, line, other]), sizes)
    return _compressed(layout, columns, shape, dense_dim, lines, block)


def _sorted(indices: Array, shape: tuple[int, ...]) -> Array:
    """The same places in order, each once; themselves where they are that already."""
    keys = flat_places(indices, shape)
    if (keys[1:] > keys[:-1]).all():
        return indices
    return from_flat_places(numpy.unique(keys), shape)


def _compressed(
    layout: layout,
    columns: Array,
    shape: tuple[int, ...],
    dense_dim: int,
    lines: int,
    block: tuple[int, ...],
) -> Pattern:
    """From sorted places (batch, line, other)."""
    *batch, line, other = columns
    batch_shape = shape[: len(shape) - dense_dim - 2]
    batches = int(math.prod(batch_shape))
    number = numpy.zeros(len(line), numpy.int64)
    for part, size in zip(batch, batch_shape, strict=True):
        number = number * size + part
    counts = numpy.bincount(as_counts(number), minlength=batches)
    if batches and (counts != counts[0]).any():
        raise RuntimeError(
            f"A batch of tensors of layout {layout} must have the same number of specified "
            f"elements in each; here they are {counts.tolist()}."
        )
    starts = numpy.zeros((batches, lines + 1), numpy.int64)
    lengths = numpy.bincount(as_counts(number * lines + line), minlength=batches * lines)
    numpy.cumsum(lengths.reshape(batches, lines), axis=1, out=starts[:, 1:])
    nnz = int(counts[0]) if batches else 0
    return compressed(
        layout,
        starts.reshape(*batch_shape, lines + 1),
        other.reshape(*batch_shape, nnz),
        shape,
        block,
    )


def _block(
    layout: layout, blocksize: Any, shape: tuple[int, ...], dense_dim: int
) -> tuple[int, ...]:
    if layout not in BLOCKED:
        if blocksize is not None:
            raise RuntimeError(f"to_sparse: blocksize has no meaning for layout {layout}.")
        return ()
    if blocksize is None or len(blocksize) != 2 or min(blocksize) < 1:
        raise RuntimeError(
            f"to_sparse: layout {layout} needs blocksize, two positive sizes; got {blocksize}."
        )
    rows, columns = shape[len(shape) - dense_dim - 2 : len(shape) - dense_dim]
    if rows % blocksize[0] or columns % blocksize[1]:
        raise RuntimeError(
            f"to_sparse: a matrix of {rows} rows and {columns} columns is not made of blocks of "
            f"{tuple(blocksize)}."
        )
    return tuple(blocksize)


def _lines(
    layout: layout, shape: tuple[int, ...], dense_dim: int, block: tuple[int, ...]
) -> tuple[int, int]:
    """How many lines are compressed, and how long they are; in blocks, if there are any."""
    first = len(shape) - dense_dim - 2
    rows, columns = (shape[first + side] // (block[side] if block else 1) for side in (0, 1))
    return (rows, columns) if layout in BY_ROW else (columns, rows)


def places_of_dense(array: Array, sparse_dim: int) -> Array:
    """Where a dense array is not zero: over the first dimensions, any element of the others."""
    mask = array != 0
    if array.ndim > sparse_dim:
        mask = mask.any(tuple(range(sparse_dim, array.ndim)))
    if not sparse_dim:
        return numpy.zeros((0, int(mask)), numpy.int64)
    return numpy.stack(mask.nonzero()).astype(numpy.int64, copy=False)


def full_pattern(like: Pattern) -> Pattern:
    """A pattern of the same layout with every place specified."""
    every = numpy.arange(int(math.prod(like.sparse_shape)), dtype=numpy.int64)
    indices = from_flat_places(every, like.sparse_shape)
    return pattern_in(like.layout, indices, like.shape, like.dense_dim, like.block or None)
