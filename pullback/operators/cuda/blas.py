"""Matrix products by cuBLAS itself, called through ctypes.

CuPy's own way takes 25 us to a launch and refuses to be captured into a graph; this takes a third,
reads transposed and strided matrices as they are, and accumulates half precision in float32. What
cuBLAS cannot read without a copy, and is small, goes to a kernel of our own (`strided.py`). Where
the library is not found, or for dtypes that it does not know, CuPy's `matmul` is called.
"""

from __future__ import annotations

import ctypes
import math
import threading
from ctypes import byref, c_double, c_float, c_int, c_longlong, c_void_p
from itertools import pairwise
from typing import Any, NamedTuple

import numpy

from pullback.operators.cuda.strided import Strided

__all__ = ["TYPES", "WORKSPACE", "Blas", "how_they_lie"]

_NAMES = ("libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "cublas64_13.dll")
WORKSPACE = 32 << 20  # what cuBLAS asks for on Hopper
_ALGORITHM = -1
_MOST_PLANS = 4096
_SINGLE, _DOUBLE = 68, 70  # what is computed in
# By character of the dtype: CUDA's number for it, what is computed in, and the type of factors.
TYPES = {
    "f": (0, _SINGLE),
    "d": (1, _DOUBLE),
    "e": (2, _SINGLE),
    "F": (4, _SINGLE),
    "D": (5, _DOUBLE),
    "E": (14, _SINGLE),
}


class _Pair(ctypes.Structure):
    _fields_ = (("real", c_double), ("imag", c_double))


class _SinglePair(ctypes.Structure):
    _fields_ = (("real", c_float), ("imag", c_float))


_FACTORS = {
    "f": (c_float(1), c_float(0)),
    "e": (c_float(1), c_float(0)),
    "E": (c_float(1), c_float(0)),
    "d": (c_double(1), c_double(0)),
    "F": (_SinglePair(1, 0), _SinglePair(0, 0)),
    "D": (_Pair(1, 0), _Pair(0, 0)),
}


class Blas:
    """Products of device arrays."""

    def __init__(self, cupy: Any) -> None:
        self.cupy = cupy
        self._library: Any = _found() if hasattr(cupy, "RawKernel") else None
        self._own = threading.local()  # a handle is for one thread
        self._workspaces: dict[tuple[int, int], Any] = {}
        self._strided = Strided(cupy)
        self._plans: dict[Any, Any] = {}  # by shapes, strides and dtypes

    def matmul(self, a: Any, b: Any, out: Any = None) -> Any:
        """As NumPy's, for arrays of one dtype; into `out` itself where it is rows in order."""
        if out is None:
            key = a.shape, a.strides, b.shape, b.strides, a.dtype.char, b.dtype.char
            plan = self._plans.get(key)
            if plan is None:
                plan = self._planned(key, a, b)
            if plan:
                made = self.cupy.ndarray(plan.shape, a.dtype)
                plan.run(self._handle(made), a.data.ptr, b.data.ptr, made.data.ptr)
                return made
        kind = a.dtype.char
        if (
            self._library is None
            or kind not in TYPES
            or a.dtype is not b.dtype
            or not a.ndim
            or not b.ndim
        ):
            return self._by_cupy(a, b, out)
        made = self._product(a, b, out if self._overrides(out, a, b) else None)
        if out is None or made is out:
            return made
        if out.shape != made.shape:
            raise ValueError(f"a product of shape {made.shape} does not fit shape {out.shape}")
        out[...] = made
        return out

    def _planned(self, key: Any, a: Any, b: Any) -> Any:
        """The call for operands that lie so; False where it takes more than a call of cuBLAS."""
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        known: Any = False
        if self._library is not None and a.dtype is b.dtype and a.dtype.char in TYPES:
            lying = how_they_lie(a, b)
            known = lying is not None and Plan(self._library, a.dtype.char, *lying)
        self._plans[key] = known
        return known

    @staticmethod
    def _overrides(out: Any, a: Any, b: Any) -> bool:
        """Whether the product of two matrices, or of batches of them, can be written there."""
        if out is None or a.ndim < 2 or b.ndim < 2 or out.dtype is not a.dtype:
            return False
        batch = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        if not out._c_contiguous or out.shape != (*batch, a.shape[-2], b.shape[-1]):
            return False
        blocks = {one.data.mem.ptr for one in (a, b)}
        return out.data.mem.ptr not in blocks  # an operand must not change while it is read

    def _by_cupy(self, a: Any, b: Any, out: Any) -> Any:
        if a.ndim == 0 or b.ndim == 0:
            return self.cupy.dot(a, b, out)
        made = self.cupy.matmul(a, b)
        if out is None:
            return made
        out[...] = made
        return out

    def _product(self, a: Any, b: Any, out: Any = None) -> Any:
        if a.ndim == 1:
            made = self._product(a[None], b)
            return made[..., 0, :] if b.ndim > 1 else made[0]
        if b.ndim == 1:
            return self._product(a, b[:, None])[..., 0]
        if a.shape[-1] != b.shape[-2]:
            raise ValueError(f"shapes {a.shape} and {b.shape} do not fit a matrix product")
        if b.ndim == 2:
            if a.ndim > 2:
                count = math.prod(a.shape[:-1])
                rows = a.reshape(count, a.shape[-1])  # copied where it is no view
                flat = None if out is None else out.reshape(count, b.shape[-1])
                made = self._single(rows, b, flat)
                return made.reshape(*a.shape[:-1], b.shape[-1]) if out is None else out
            return self._single(a, b, out)
        return self._batched(a, b, out)

    def _room(self, shape: tuple[int, ...], dtype: Any, out: Any) -> Any:
        return self.cupy.ndarray(shape, dtype) if out is None else out

    def _nothing(self, shape: tuple[int, ...], dtype: Any, out: Any) -> Any:
        """The product over no elements."""
        out = self._room(shape, dtype, out)
        out.fill(0)
        return out

    def _single(self, a: Any, b: Any, out: Any = None) -> Any:
        m, k = a.shape
        n = b.shape[1]
        dtype = a.dtype
        if not (m and n and k):
            return self._nothing((m, n), dtype, out)
        out = self._room((m, n), dtype, out)
        a, flip_a, lead_a = self._laid_out(a)
        b, flip_b, lead_b = self._laid_out(b)
        sides = Sides(m, n, k), (flip_a, lead_a, 0), (flip_b, lead_b, 0)
        plan = Plan(self._library, dtype.char, out.shape, *sides)
        plan.run(self._handle(out), a.data.ptr, b.data.ptr, out.data.ptr)
        return out

    def _batched(self, a: Any, b: Any, out: Any = None) -> Any:
        if a.ndim == 2:
            a = a[None]
        batch = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        (m, k), n = a.shape[-2:], b.shape[-1]
        dtype = a.dtype
        if not (m and n and k) or 0 in batch:
            return self._nothing((*batch, m, n), dtype, out)
        a, b = self._filled(a, batch), self._filled(b, batch)
        out = self._room((*batch, m, n), dtype, out)
        evenly_a, evenly_b = _evenly(a), _evenly(b)
        if evenly_a is None or evenly_b is None:
            if self._strided.product(a, b, out):
                return out
            if evenly_a is None:
                a, evenly_a = self.cupy.ascontiguousarray(a), (0, k, m * k)
            if evenly_b is None:
                b, evenly_b = self.cupy.ascontiguousarray(b), (0, n, k * n)
        sides = Sides(m, n, k, out.size // (m * n)), evenly_a, evenly_b
        plan = Plan(self._library, dtype.char, out.shape, *sides)
        plan.run(self._handle(out), a.data.ptr, b.data.ptr, out.data.ptr)
        return out

    def _laid_out(self, x: Any) -> tuple[Any, int, int]:
        """A matrix as cuBLAS reads it: itself or a copy, whether it is turned, and its step."""
        known = _layout(x)
        if known is None:
            return self.cupy.ascontiguousarray(x), 0, x.shape[1]
        return x, *known

    def _filled(self, x: Any, batch: tuple[int, ...]) -> Any:
        """With all dimensions of the batch."""
        return x if x.shape[:-2] == batch else self.cupy.broadcast_to(x, (*batch, *x.shape[-2:]))

    def _handle(self, array: Any) -> Any:
        """The handle of this thread and device, on the current stream."""
        number = array.data.device_id
        stream = self.cupy.cuda.get_current_stream().ptr
        known = getattr(self._own, "handles", None)
        if known is None:
            known = self._own.handles = {}
        handle, last = known.get(number, (None, None))
        if last == stream:
            return handle
        if handle is None:
            handle = c_void_p()
            if self._library.cublasCreate_v2(byref(handle)):
                raise RuntimeError("cuBLAS could not be started.")
        self._library.cublasSetStream_v2(handle, c_void_p(stream))
        memory = c_void_p(self.workspace(number, stream))
        self._library.cublasSetWorkspace_v2(handle, memory, ctypes.c_size_t(WORKSPACE))
        known[number] = handle, stream
        return handle

    def workspace(self, number: int, stream: int) -> int:
        """Memory of a device for the products of one stream: two streams must not share it."""
        known = self._workspaces.get((number, stream))
        if known is None:
            with self.cupy.cuda.using_allocator(self.cupy.get_default_memory_pool().malloc):
                known = self._workspaces[number, stream] = self.cupy.cuda.alloc(WORKSPACE)
        address: int = known.ptr
        return address


class Sides(NamedTuple):
    """Rows, columns and inner size of a product, and how many there are; 0 for one alone."""

    m: int
    n: int
    k: int
    copies: int = 0


# Whether matrices are turned, the step from row to row, and that from one to the next.
Lying = tuple[int, int, int]


class Plan:
    """One call of cuBLAS but for the addresses."""

    __slots__ = ("_before", "_function", "_last", "_none", "_of_a", "_of_b", "shape")

    def __init__(
        self, library: Any, char: str, shape: tuple[int, ...], sides: Sides, a: Lying, b: Lying
    ) -> None:
        self.shape = shape
        (m, n, k, count), (kind, compute) = sides, TYPES[char]
        one, none = _FACTORS[char]
        # cuBLAS counts columns first, so it is given the transposed product.
        self._before = b[0], a[0], n, m, k, byref(one)
        self._of_a: tuple[int, ...] = (kind, a[1])
        self._of_b: tuple[int, ...] = (kind, b[1])
        self._none = byref(none)
        self._last: tuple[int, ...] = (kind, n, compute, _ALGORITHM)
        self._function = library.cublasGemmEx
        if count:
            self._of_a, self._of_b = (kind, *a[1:]), (kind, *b[1:])
            self._last = kind, n, m * n, count, compute, _ALGORITHM
            self._function = library.cublasGemmStridedBatchedEx

    def run(self, handle: Any, a: int, b: int, out: int) -> None:
        """Queue it on the handle's stream."""
        status = self._function(
            handle, *self._before, b, *self._of_b, a, *self._of_a, self._none, out, *self._last
        )
        if status:
            raise RuntimeError(f"cuBLAS could not make a product of {self.shape}: status {status}.")


def how_they_lie(a: Any, b: Any) -> tuple[tuple[int, ...], Sides, Lying, Lying] | None:
    """The product's shape and sides, and how its operands lie; None where cuBLAS needs copies."""
    if a.ndim < 2 or b.ndim < 2 or not (a.size and b.size) or a.shape[-1] != b.shape[-2]:
        return None
    lying_a, lying_b = _evenly(a), _evenly(b)
    if lying_a is None or lying_b is None:
        return None
    (*batch, m, k), n = a.shape, b.shape[-1]
    shape = *batch, m, n
    if b.ndim == 2:
        rows = math.prod(batch)
        if rows > 1:
            if lying_a[0] or lying_a[2] != m * lying_a[1]:  # no matrix of all rows
                return None
            lying_a = 0, lying_a[1], 0
        return shape, Sides(rows * m, n, k), lying_a, lying_b
    if a.shape[:-2] != b.shape[:-2]:
        return None
    return shape, Sides(m, n, k, math.prod(batch)), lying_a, lying_b


def _evenly(x: Any) -> Lying | None:
    """How the matrices of a batch lie, in elements; None where cuBLAS cannot read them so."""
    step, layout = _step(x), _layout(x)
    return None if step is None or layout is None else (*layout, step)


def _step(x: Any) -> int | None:
    """Elements from one matrix of a batch to the next; None where they do not follow evenly."""
    sides = [(n, s) for n, s in zip(x.shape[:-2], x.strides[:-2], strict=True) if n > 1]
    if not sides:
        return 0
    for (_, outer), (count, inner) in pairwise(sides):
        if outer != count * inner:
            return None
    step: int = sides[-1][1] // x.itemsize
    return step


def _layout(x: Any) -> tuple[int, int] | None:
    """Whether a matrix is turned, and its step, in elements; None where neither side is in order.

    Of a batch: of its matrices.
    """
    (rows, columns), (down, right) = x.shape[-2:], x.strides[-2:]
    size = x.itemsize
    if (
        (right == size or columns == 1)
        and (rows == 1 or down >= columns * size)
        and not down % size
    ):
        return 0, max(down // size, columns) if rows > 1 else columns
    if (down == size or rows == 1) and (columns == 1 or right >= rows * size) and not right % size:
        return 1, max(right // size, rows) if columns > 1 else rows
    return None


def _found() -> Any:
    """cuBLAS, with the types of what is called; None where it is not there."""
    for name in _NAMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        pointer, number, long = c_void_p, c_int, c_longlong
        library.cublasGemmEx.argtypes = (
            *(pointer, number, number, number, number, number, pointer),
            *(pointer, number, number, pointer, number, number),
            *(pointer, pointer, number, number, number, number),
        )
        library.cublasGemmStridedBatchedEx.argtypes = (
            *(pointer, number, number, number, number, number, pointer),
            *(pointer, number, number, long, pointer, number, number, long),
            *(pointer, pointer, number, number, long, number, number, number),
        )
        return library
    return None
