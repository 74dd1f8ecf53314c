"""A tensor with a hidden dimension: what a function mapped by vmap sees."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, new


class Batched(Tensor):
    """One example's view of a batch. `value` holds all examples, along its dimension `bdim`.

    `_array` is the first example's (or a stand-in for an empty batch): shape, dtype and strides are
    right, and every operator call goes to the level before it would look at the values.
    """

    __slots__ = ("bdim", "level", "value")

    value: Tensor
    bdim: int
    level: Any


def batched(value: Tensor, bdim: int, level: Any) -> Batched:
    """Hide dimension `bdim` of `value`."""
    made = new(Batched)
    made.value = value
    made.bdim = bdim
    made.level = level
    array = value._array
    if array.shape[bdim]:
        made._array = array[(slice(None),) * bdim + (0, ...)]
    else:
        shape = array.shape[:bdim] + array.shape[bdim + 1 :]
        made._array = numpy.zeros(shape, array.dtype)
    made._node = None
    made._cell = value._cell
    return made


def is_batched_at(value: Any, level: Any) -> bool:
    """Whether `value` hides a dimension that belongs to `level`."""
    if not isinstance(value, Batched):
        return False
    if not value.level.open:
        raise RuntimeError(
            "A tensor of a vmap that has ended was used: it escaped from the mapped function, e.g. through a "
            "list or an attribute. Return it instead."
        )
    return value.level is level


def innermost_level() -> Any:
    """The level that takes the next operator call, or None."""
    levels = get_mode().levels
    return levels[-1] if levels else None
