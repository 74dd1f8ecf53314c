"""Convolutions and recurrent layers by cuDNN, called through ctypes, where it is installed.

Each function gives None for what is not for cuDNN; what a call needs beside addresses is prepared
once for shapes, dtypes and switches (`cudnn_plans.py`).
"""

from __future__ import annotations

import math
import threading
from ctypes import byref, c_void_p
from typing import Any

from pullback.operators.cuda.cudnn_layers import Layers
from pullback.operators.cuda.cudnn_plans import (
    ALIGNMENT,
    DATA_TYPES,
    Geometry,
    Wanted,
    checked,
    find_library,
    planned,
)

__all__ = ["Cudnn"]

_MOST_PLANS = 2048
_MOST_ELEMENTS = (1 << 31) - 1


class Cudnn:
    """The library, and the plans made with it."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._library: Any = None
        self._asked = not hasattr(cupy, "RawKernel")
        self._own = threading.local()  # a handle is for one thread
        self._plans: dict[Any, Any] = {}
        self.layers = Layers(self)

    def library(self) -> Any:
        """The library itself; None where it is not there. Looked for when first needed."""
        if not self._asked:
            self._asked = True
            self._library = find_library()
        return self._library

    def correlate(
        self, x: Any, weight: Any, bias: Any, number: Any, geometry: Geometry, switches: Wanted
    ) -> Any:
        """Filters times windows of images, plus a number for each channel."""
        if not self._takes(x, weight, bias, geometry):
            return None
        shape = x.shape[0], weight.shape[0], *number
        plan = self._plan("forward", x.dtype, x.shape, weight.shape, shape, geometry, switches)
        if plan is None:
            return None
        out = self.cupy.ndarray(shape, x.dtype)
        handle = self.handle(out)
        plan.run(self.cupy, handle, x.data.ptr, weight.data.ptr, out.data.ptr)
        if bias is not None:
            plan.add(handle, bias.data.ptr, out.data.ptr)
        return out

    def spread(
        self, g: Any, weight: Any, bias: Any, size: Any, geometry: Geometry, switches: Wanted
    ) -> Any:
        """The adjoint with respect to an image of `size`, plus a number for each channel."""
        if not self._takes(g, weight, bias, geometry):
            return None
        shape = g.shape[0], weight.shape[1] * geometry.groups, *size
        plan = self._plan("data", g.dtype, shape, weight.shape, g.shape, geometry, switches)
        if plan is None:
            return None
        out = self.cupy.ndarray(shape, g.dtype)
        handle = self.handle(out)
        plan.run(self.cupy, handle, weight.data.ptr, g.data.ptr, out.data.ptr)
        if bias is not None:
            plan.add(handle, bias.data.ptr, out.data.ptr)
        return out

    def filter_gradient(
        self, g: Any, x: Any, kernel: Any, geometry: Geometry, switches: Wanted
    ) -> Any:
        """The adjoint with respect to the filters, of size `kernel`."""
        if not self._takes(g, x, None, geometry):
            return None
        shape = g.shape[1], x.shape[1] // geometry.groups, *kernel
        plan = self._plan("filter", g.dtype, x.shape, shape, g.shape, geometry, switches)
        if plan is None:
            return None
        out = self.cupy.ndarray(shape, g.dtype)
        plan.run(self.cupy, self.handle(out), x.data.ptr, g.data.ptr, out.data.ptr)
        return out

    def _takes(self, a: Any, b: Any, bias: Any, geometry: Geometry) -> bool:
        """Whether operands are of one dtype, in order in memory, and at even addresses."""
        dtype = a.dtype
        if dtype.char not in DATA_TYPES or b.dtype is not dtype or self.library() is None:
            return False
        if not (a._c_contiguous and b._c_contiguous and a.size and b.size):
            return False
        if (a.data.ptr | b.data.ptr) % ALIGNMENT:
            return False
        if bias is not None and (bias.dtype is not dtype or not bias._c_contiguous):
            return False
        if not 3 <= a.ndim <= 5:
            return False
        return all(before >= 0 <= after for before, after in geometry.padding)

    def _plan(
        self,
        direction: str,
        dtype: Any,
        x: Any,
        weight: Any,
        y: Any,
        geometry: Geometry,
        switches: Wanted,
    ) -> Any:
        """The call for such shapes; None where cuDNN has none."""
        number = self.cupy.cuda.runtime.getDevice()
        key = number, direction, dtype.char, x, weight, y, geometry, switches
        try:
            return self._plans[key]
        except KeyError:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            made = self._plans[key] = self._made(*key[1:])
            return made

    def _made(
        self,
        direction: str,
        char: str,
        x: Any,
        weight: Any,
        y: Any,
        geometry: Geometry,
        switches: Wanted,
    ) -> Any:
        sizes = zip(x[2:], weight[2:], *geometry[:3], strict=True)
        fitting = tuple((n + sum(p) - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes)
        counts = [math.prod(shape) for shape in (x, weight, y)]
        if fitting != tuple(y[2:]) or min(counts) < 1 or max(counts) > _MOST_ELEMENTS:
            return None
        shapes, handle = {"x": x, "weight": weight, "y": y}, self.handle()
        plan = planned(self._library, handle, direction, char, shapes, geometry, switches)
        if plan is None or direction == "filter":
            return plan
        return plan.adds(char, y if direction == "forward" else x)

    def handle(self, array: Any = None) -> Any:
        """The handle of this thread and device, on the current stream."""
        number = self.cupy.cuda.runtime.getDevice() if array is None else array.data.device_id
        stream = self.cupy.cuda.get_current_stream().ptr
        known = getattr(self._own, "handles", None)
        if known is None:
            known = self._own.handles = {}
        handle, last = known.get(number, (None, None))
        if last == stream:
            return handle
        if handle is None:
            handle = c_void_p()
            checked("cudnnCreate", self._library.cudnnCreate(byref(handle)))
        checked("cudnnSetStream", self._library.cudnnSetStream(handle, c_void_p(stream)))
        known[number] = handle, stream
        return handle
