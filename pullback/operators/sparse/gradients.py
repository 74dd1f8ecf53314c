"""Sparse gradients of dense tensors, of which few rows or elements are read.

For arrays and for tensors, as rules are; on tensors they are recorded like any other step.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.tensor import Tensor
from pullback.operators.shape.reshaping import reshape
from pullback.operators.sparse import convert as _convert  # noqa: F401 (installs the table)
from pullback.operators.sparse.array import SparseArray
from pullback.operators.sparse.pattern import Pattern, coordinates
from pullback.operators.sparse.primitives import _rows_at, from_values

__all__ = ["element_gradient", "row_gradient"]


def row_gradient(g: Any, indices: Any, shape: Any, padding_idx: int) -> Any:
    """One row for each row that was read, duplicates kept, padding left out."""
    index = getattr(indices, "_array", indices).reshape(-1).astype(numpy.int64)  # users keep theirs
    kept = None
    if padding_idx >= 0 and (index == padding_idx).any():
        kept = numpy.flatnonzero(index != padding_idx)
        index = index[kept]
    pattern = coordinates(index[None], tuple(shape), len(shape) - 1)
    return _made(g, (-1, *shape[1:]), kept, pattern)


def element_gradient(g: Any, shape: Any, dim: int, index: Any) -> Any:
    """One element for each that was gathered along `dim`, duplicates kept."""
    numbers = getattr(index, "_array", index)
    kept = numbers.reshape(-1) if numbers.ndim < len(shape) else numbers  # a 0-d index names one
    places = numpy.indices(kept.shape[: len(shape)]).reshape(len(shape), kept.size)
    if len(shape):
        places[dim] = kept.reshape(-1)
    pattern = coordinates(places.astype(numpy.int64, copy=False), tuple(shape), 0)
    return _made(g, (-1,), None, pattern)


def _made(g: Any, rows: tuple[int, ...], kept: Any, pattern: Pattern) -> Any:
    if isinstance(g, Tensor):
        values = reshape(g, rows)
        return from_values(values if kept is None else _rows_at(values, kept), pattern)
    array = g.reshape(rows)
    return SparseArray(pattern, array if kept is None else array[kept])
