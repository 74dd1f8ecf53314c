"""Copies of short lines: each one as a single item, where NumPy would start a loop for each."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy
from numpy import ndarray

from pullback.core.arrays import Array

__all__ = ["put"]

# Bytes of a line up to which that is worth two views; 131,072 float32 on lines of 16 take 21 us and
# not 49, on lines of 64 they take 13 and not 18.
_SHORT = 512
_FEW = 4096  # elements that are copied in the time of the views


@cache
def _item(size: int) -> Any:
    return numpy.dtype((numpy.void, size))


def put(to: Array, source: Array) -> None:
    """`to[...] = source` for arrays of one shape, or a source that broadcasts."""
    size = to.itemsize
    if (
        to.size >= _FEW
        and to.shape[-1] * size <= _SHORT
        and to.strides[-1] == size
        and type(to) is ndarray is type(source)
        and source.dtype is to.dtype
        and source.shape == to.shape
        and source.strides[-1] == size
        and not to.dtype.hasobject
    ):
        item = _item(to.shape[-1] * size)
        to.view(item)[...] = source.view(item)
    else:
        to[...] = source
