"""Logarithms of sums of exponentials, without overflow."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.arrays import Array, Namespace
from pullback.operators.arrays.blocks import BLOCK, slices
from pullback.operators.arrays.reductions import axis_of, kept_shape, without
from pullback.operators.arrays.sums import sums

__all__ = ["log_total_exp"]


def log_total_exp(xp: Namespace, input: Array, dim: Any, keepdim: Any) -> Array:
    """log(sum(exp(input))) over `dim`, shifted by the largest element; rows go in blocks."""
    if input.dtype.itemsize == 2:
        return log_total_exp(xp, input.astype(xp.float32), dim, keepdim).astype(input.dtype)
    axis = axis_of(dim, input.ndim)
    if not input.size:
        result = xp.full(kept_shape(input.shape, axis), -math.inf, input.dtype)
    elif (
        input.size <= BLOCK
        or axis is None
        or not input.flags.c_contiguous
        or min(axis) != input.ndim - len(axis)
    ):
        result = _log_total_exp(xp, input, axis)
    else:
        rows = input.reshape(math.prod(input.shape[: min(axis)]), -1)
        result = xp.empty((rows.shape[0], 1), input.dtype)
        for block in slices(*rows.shape):
            result[block] = _log_total_exp(xp, rows[block], 1)
        result = result.reshape(kept_shape(input.shape, axis))
    return result if keepdim else result.reshape(without(input.shape, axis))


def _log_total_exp(xp: Namespace, input: Array, axis: Any) -> Array:
    largest = xp.maximum.reduce(input.real, axis, None, None, True)
    flat = largest.reshape(-1)
    if not flat.dot(flat) < math.inf:  # half of what isfinite().all() takes
        largest = xp.where(xp.isfinite(largest), largest, 0)
    powers = xp.asarray(xp.subtract(input, largest))
    xp.exp(powers, powers)
    result = xp.asarray(sums(xp, powers, axis, keepdim=True))
    xp.log(result, result)
    return xp.add(result, largest, result)
