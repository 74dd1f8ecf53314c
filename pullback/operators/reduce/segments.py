"""Reductions over runs of neighbouring elements, given by their lengths or by where they start."""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.addresses import as_counts
from pullback.core.arrays import I64, Array, is_wrong, namespace
from pullback.core.device import META
from pullback.core.errors import unsupported
from pullback.core.tensor import Tensor, wrap
from pullback.operators.create.constants import constant_like
from pullback.operators.indexing.rows import index_add, index_select
from pullback.operators.indexing.scatter_reduce import index_reduce
from pullback.operators.indexing.selection import where
from pullback.operators.running.by_example import each_example, level_reading
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshaping import reshape

FOUND_IN = {"torch": "segment_reduce"}

# Reduction -> what a segment starts with.
_STARTS = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: float | None = None,
) -> Any:
    """The sum, mean, prod, max or min of each segment along `axis`; `initial` counts as an element.

    >>> import pullback as torch
    >>> torch.segment_reduce(torch.arange(5.0), "sum", lengths=torch.tensor([2, 3]))
    tensor([1., 9.])
    """
    if (level := level_reading(lengths, offsets)) is not None:
        segments = {"lengths": lengths, "indices": indices, "offsets": offsets, "axis": axis}
        return each_example(
            level, segment_reduce, data, reduce, **segments, unsafe=unsafe, initial=initial
        )
    if reduce not in _STARTS:
        raise RuntimeError(
            f"segment_reduce: reduce must be one of {', '.join(_STARTS)}, got {reduce!r}."
        )
    if data._array.dtype.kind not in "fV":
        raise unsupported("segment_reduce", data._array)
    if data.device is META:  # the shape is known, where segments start is not
        given = lengths if lengths is not None else offsets
        count = 0 if given is None else given.shape[axis] - (lengths is None)
        some = constant_like(data, numpy.zeros(count, I64))
        return shown_as("SegmentReduceBackward0", index_select(data, axis, some))
    if indices is not None or (lengths is None and offsets is None):
        raise RuntimeError(
            "segment_reduce: give `lengths` or `offsets`; `indices` is not supported."
        )
    shape = tuple(data.shape)
    starts, ends = _bounds(shape, lengths, offsets, axis, unsafe=unsafe)
    number, place = _members(starts, ends, shape[axis])
    rows = index_select(reshape(data, (-1, *shape[axis + 1 :])), 0, wrap(place))
    start = _STARTS[reduce] if initial is None else float(initial)
    before = _STARTS[reduce] if reduce in ("max", "min") else start
    size = (starts.size, *shape[axis + 1 :])
    whole = wrap(namespace(data._array).full(size, before, data._array.dtype))
    if reduce in ("sum", "mean"):
        result = index_add(whole, 0, wrap(number), rows)
    else:
        kind = {"prod": "prod", "max": "amax", "min": "amin"}[reduce]
        result = index_reduce(whole, 0, wrap(number), rows, kind)
        if initial is not None and reduce != "prod":
            # Afterwards: an element as large as `initial` does not share its gradient with it.
            beaten = result < initial if reduce == "max" else result > initial
            result = where(beaten, initial, result)
    if reduce == "mean":
        result = _divided(result, ends - starts, math.nan if initial is None else start)
    result = reshape(result, (*shape[:axis], starts.shape[-1], *shape[axis + 1 :]))
    return shown_as("SegmentReduceBackward0", result)


def _bounds(
    shape: tuple[int, ...],
    lengths: Tensor | None,
    offsets: Tensor | None,
    axis: int,
    *,
    unsafe: bool,
) -> tuple[Array, Array]:
    """Where segments start and end along `axis`, for each line before it."""
    given = offsets if lengths is None else lengths
    assert given is not None
    array = given._array
    if array.dtype.kind not in "iu":
        raise unsupported("segment_reduce", array)
    if not 0 <= axis < len(shape) or array.shape[:-1] != shape[:axis]:
        raise RuntimeError(
            f"segment_reduce: segments of shape {array.shape} along axis {axis} of data of shape "
            f"{shape}; all dimensions before the axis must agree."
        )
    if lengths is None:
        starts, ends = array[..., :-1].astype(numpy.int64), array[..., 1:].astype(numpy.int64)
        if is_wrong(ends < starts):
            raise RuntimeError("segment_reduce: offsets must not decrease.")
        return starts, ends
    if not unsafe and is_wrong(array < 0):
        raise RuntimeError("segment_reduce: lengths must not be negative.")
    ends = array.cumsum(-1, dtype=numpy.int64)
    if not unsafe and is_wrong(array.sum(-1) != shape[axis]):
        raise RuntimeError(
            f"segment_reduce: lengths must add up to the {shape[axis]} elements along axis {axis}."
        )
    return ends - array, ends


def _members(starts: Array, ends: Array, size: int) -> tuple[Array, Array]:
    """For each element of a segment: the segment's number, and the row in the flattened data."""
    xp = namespace(starts)
    count = (xp.minimum(ends, size) - starts).reshape(-1)
    number = xp.repeat(xp.arange(count.size), as_counts(count))
    line = xp.arange(starts.size // max(starts.shape[-1], 1)) * size
    first = (starts + line.reshape((*starts.shape[:-1], 1))).reshape(-1)
    within = xp.arange(number.size) - (count.cumsum() - count)[number]
    return number, first[number] + within


def _divided(sums: Any, counts: Array, empty: float) -> Any:
    count = wrap(counts.reshape((-1,) + (1,) * (sums.ndim - 1)).astype(sums._array.dtype))
    return where(count > 0, sums / count, empty)
