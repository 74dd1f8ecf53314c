"""Other sizes for a tensor that is there: `resize_`, and `out=` of another shape than the result.

The memory is kept as long as it is large enough, so views of it see what is written then.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import Array
from pullback.core.memory.borrowed import lender_of, refuse_borrowed
from pullback.core.memory.narrow import held
from pullback.core.process.determinism import fill_array, wish
from pullback.operators.arrays.strides import contiguous_strides, on_storage, root, storage_offset

__all__ = ["resized"]


def resized(
    op: str, tensor: Any, shape: tuple[int, ...], strides: tuple[int, ...] | None = None
) -> Array:
    """The memory from the tensor's first element on, seen anew; a larger copy if it is too small.

    Strides are counted in elements, and those without gaps where none are given.
    """
    array = tensor._array
    steps = contiguous_strides(shape) if strides is None else strides
    offset = storage_offset(array)
    wanted = math.prod(shape)
    kept = min(wanted, max(root(array).nbytes // array.itemsize - offset, 0))
    if kept == wanted:
        return on_storage(array, (shape, steps, offset))
    refuse_borrowed(op, lender_of(tensor, root(array)))
    try:
        grown = held(numpy.zeros(wanted, array.dtype))
    except (MemoryError, OverflowError, ValueError) as error:
        raise errors.too_large(op, error) from None
    grown[:kept] = on_storage(array, ((kept,), (1,), offset))
    if wish.fills:
        fill_array(grown[kept:])
    return on_storage(grown, (shape, steps, 0))
