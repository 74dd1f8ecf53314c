"""Matrix products of a program on a device: views of its buffers, multiplied by the library."""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.ir.values import Val

__all__ = ["Product"]


class Product:
    """One product; called with what makes an array of a value and memory."""

    def __init__(self, v: Val, library: Any) -> None:
        self.v, self.library = v, library
        a, b = v.ins
        self.batch = tuple(v.shape[:-2])
        self.shape = (*self.batch, a.shape[-2], b.shape[-1])
        self.strides = v.strides
        if v.attr is not None:  # rows of the result lie where a larger array has them
            strides, lead, self.batch, m, n = v.attr
            self.shape, self.strides = (*self.batch, m, n), (*strides, lead, 1)
        self.count = math.prod(self.batch)

    def __call__(self, array_of: Any) -> None:
        """Multiply; `array_of(value, shape, strides)` is a window on the memory of a value."""
        a, b = self.v.ins
        left = array_of(a, (*self.batch, *a.shape[-2:]), a.strides)
        right = array_of(b, (*self.batch, *b.shape[-2:]), b.strides)
        out = array_of(self.v, self.shape, self.strides)
        self.library.blas.matmul(left, right, out)
