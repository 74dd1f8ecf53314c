"""What must hold of indices, values and sizes for a sparse tensor; and whether to look.

Sizes are always checked. Contents (bounds, order, duplicates) only where asked for, as that reads
all of them: by `check_invariants=True` or for a while by `check_sparse_tensor_invariants`.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.operators.sparse.pattern import BY_ROW, Pattern

__all__ = ["check_contents", "check_shapes", "checking"]


class _Checking:
    """Whether contents are checked where a call does not say; one for the process."""

    enabled = False


checking = _Checking()


def check_shapes(op: str, pattern: Pattern, values: Array) -> None:
    """Sizes that do not fit one another."""
    if tuple(values.shape) != pattern.values_shape:
        raise RuntimeError(
            f"{op}: values of shape {pattern.values_shape} go with these indices and this size; "
            f"got {tuple(values.shape)}."
        )


def check_contents(op: str, pattern: Pattern) -> None:
    """Places outside of the tensor; for compressed layouts also lines that do not add up."""
    if pattern.stored is None:
        _check_lines(op, pattern)
        return
    for dim, size in enumerate(pattern.sparse_shape):
        row = pattern.stored[dim]
        if row.size and (row.min() < 0 or row.max() >= size):
            worst = int(row.min() if row.min() < 0 else row.max())
            raise RuntimeError(
                f"{op}: index {worst} does not exist in dimension {dim}, which has size {size}."
            )


def _check_lines(op: str, pattern: Pattern) -> None:
    names = ("crow_indices", "col_indices") if pattern.layout in BY_ROW else _BY_COLUMN
    starts, plain = pattern.compressed, pattern.plain
    kept = len(pattern.sparse_shape)
    across = pattern.shape[kept - 1 if pattern.layout in BY_ROW else kept - 2]
    if pattern.block:
        across //= pattern.block[1 if pattern.layout in BY_ROW else 0]
    if starts.dtype != plain.dtype:
        raise RuntimeError(f"{op}: {names[0]} and {names[1]} must have one dtype.")
    if (starts[..., 0] != 0).any() or (starts[..., -1] != pattern.nnz).any():
        raise RuntimeError(
            f"{op}: {names[0]} must begin with 0 and end with {pattern.nnz}, the number of "
            "specified elements."
        )
    if (numpy.diff(starts, axis=-1) < 0).any():
        raise RuntimeError(f"{op}: {names[0]} must not decrease.")
    if plain.size and (plain.min() < 0 or plain.max() >= across):
        raise RuntimeError(f"{op}: {names[1]} must be at least 0 and below {across}.")
    begun = starts.reshape(-1, starts.shape[-1])
    _check_order(op, names, begun, plain.reshape(len(begun), pattern.nnz))


_BY_COLUMN = ("ccol_indices", "row_indices")


def _check_order(op: str, names: tuple[str, str], starts: Array, plain: Array) -> None:
    for begun, others in zip(starts, plain, strict=True):
        falls = numpy.flatnonzero(numpy.diff(others) <= 0) + 1
        if len(numpy.setdiff1d(falls, begun)):
            raise RuntimeError(
                f"{op}: {names[1]} must increase within each line of {names[0]}, without "
                "duplicates."
            )


def check_given(op: str, indices: tuple[Any, ...]) -> None:
    """Compressed indices are taken as they are, so must be of a dtype that is kept."""
    for one in indices:
        dtype = getattr(one, "_array", numpy.zeros(0, numpy.int64)).dtype
        if dtype not in (numpy.int64, numpy.int32):
            raise RuntimeError(f"{op}: indices must be of dtype int64 or int32, got {dtype}.")


def index_array(op: str, name: str, value: Any, *, whole: bool = True) -> Array:
    """Indices as an array of int64 or int32; of fractions their whole parts, unless `whole`."""
    array = getattr(value, "_array", None)
    if array is None:
        array = numpy.array(value)
        if not array.size:
            array = array.astype(numpy.int64)
    fractions = whole and array.dtype.kind == "f" and hasattr(value, "_array")
    if array.dtype.kind not in "iuf" or fractions:
        raise TypeError(f"{op}: {name} must be a tensor of integers, got {array.dtype}.")
    if array.dtype in (numpy.int64, numpy.int32):
        return array
    return array.astype(numpy.int64)
