"""Unit vectors of the space of several tensors, and the columns of a Jacobian by those tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from pullback.core.tensor import wrap

__all__ = ["basis", "split_columns"]


def basis(tensors: Sequence[Any], start: int, count: int) -> list[Any]:
    """Unit vectors number `start` to `start + count` of the space of all `tensors` together."""
    made, offset = [], 0
    for one in tensors:
        like = one._array
        array = numpy.zeros((count, *like.shape), like.dtype)
        flat = array.reshape(count, math.prod(like.shape))
        first, last = max(start, offset), min(start + count, offset + flat.shape[1])
        if first < last:
            flat[range(first - start, last - start), range(first - offset, last - offset)] = 1
        made.append(wrap(array))
        offset += flat.shape[1]
    return made


def split_columns(column: Any, sizes: Sequence[int], leaves: Sequence[Any]) -> list[Any]:
    """The last dimension of a Jacobian, taken apart into those of the inputs."""
    if len(sizes) == 1:
        if leaves[0]._array.ndim == 1:
            return [column]  # which it is
        return [column.reshape((*column.shape[:-1], *leaves[0].shape))]
    parts = column.split(sizes, -1)
    return [
        part.reshape((*part.shape[:-1], *leaf.shape))
        for part, leaf in zip(parts, leaves, strict=True)
    ]
