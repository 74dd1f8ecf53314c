"""Products with a row added to each of their rows in one launch, by cuBLASLt.

A layer's bias costs a launch and a pass over memory otherwise. What cuBLASLt wants to know of a
product is told it once, for operands that lie so; whatever it cannot do, or is not aligned, is left
to a product and a sum. Its descriptions are changed by each call, so they belong to a thread.
"""

from __future__ import annotations

import ctypes
import threading
from ctypes import byref, c_double, c_float, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

from pullback.operators.cuda.blas import TYPES, WORKSPACE, Blas, how_they_lie

__all__ = ["Biased"]

_NAMES = ("libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11", "cublasLt64_13.dll")
# Numbers of cuBLASLt's: attributes of a product, and of what is asked for.
_TURN_A, _TURN_B, _AFTERWARDS, _BIAS = 3, 4, 7, 8
_ADD_BIAS = 4
_MOST_WORKSPACE, _ALIGNMENTS = 1, (5, 6, 7, 8)
_ALIGNED = 16  # bytes
_MOST_PLANS = 1024
_FACTORS: dict[str, Any] = {
    "d": (c_double(1), c_double(0)),
    **dict.fromkeys("feE", (c_float(1), c_float(0))),
}


class _Way(ctypes.Structure):
    """What cuBLASLt answers to the question how it would multiply."""

    _fields_ = (
        ("algorithm", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


class Biased:
    """The products."""

    def __init__(self, cupy: Any, blas: Blas) -> None:
        self._cupy, self._blas = cupy, blas
        self.library: Any = _found() if hasattr(cupy, "RawKernel") else None
        self._own = threading.local()
        self._handles: dict[int, Any] = {}  # by device

    def product(self, a: Any, b: Any, row: Any) -> Any:
        """`a @ b + row`, b a matrix; None where it has to be done in steps."""
        if self.library is None or not row._c_contiguous or a.dtype is not row.dtype:
            return None
        try:
            plans = self._own.plans
        except AttributeError:
            plans = self._own.plans = {}
        key = a.shape, a.strides, b.shape, b.strides, a.dtype.char, b.dtype.char, a.data.device_id
        plan = plans.get(key)
        if plan is None:
            if len(plans) >= _MOST_PLANS:
                plans.clear()
            plan = plans[key] = self._planned(a, b)
        addresses = a.data.ptr, b.data.ptr, row.data.ptr
        if not plan or (addresses[0] | addresses[1] | addresses[2]) % _ALIGNED:
            return None
        out = self._cupy.ndarray(plan.shape, a.dtype)
        stream = self._cupy.cuda.get_current_stream().ptr
        workspace = self._blas.workspace(a.data.device_id, stream)
        plan.run(*addresses, out.data.ptr, workspace, stream)
        return out

    def _planned(self, a: Any, b: Any) -> Any:
        char = a.dtype.char
        lying = how_they_lie(a, b)
        if b.ndim != 2 or lying is None or char not in _FACTORS or a.dtype is not b.dtype:
            return False
        number = a.data.device_id
        if number not in self._handles:
            self._handles[number] = _made(self.library.cublasLtCreate)
        plan = _Plan(self.library, self._handles[number], char, *lying)
        return plan if plan.is_possible else False


class _Plan:
    """One call of cuBLASLt but for the addresses."""

    def __init__(
        self,
        library: Any,
        handle: Any,
        char: str,
        shape: tuple[int, ...],
        sides: Any,
        a: Any,
        b: Any,
    ) -> None:
        self.shape, self._library, self._handle = shape, library, handle
        m, n, k = sides[:3]
        kind, compute = TYPES[char]
        self._one, self._none = map(byref, _FACTORS[char])
        self._product = _made(library.cublasLtMatmulDescCreate, compute, 1 if char == "d" else 0)
        self._tell(_TURN_A, c_int(b[0]))
        self._tell(_TURN_B, c_int(a[0]))
        self._tell(_AFTERWARDS, c_uint32(_ADD_BIAS))
        # It counts columns first, so it is given the transposed product.
        make = library.cublasLtMatrixLayoutCreate
        self._b = _made(make, kind, *((k, n) if b[0] else (n, k)), b[1])
        self._a = _made(make, kind, *((m, k) if a[0] else (k, m)), a[1])
        self._out = _made(make, kind, n, m, n)
        self._way = _Way()
        self.is_possible = self._ask()

    def _tell(self, attribute: int, value: Any) -> None:
        _checked(
            self._library.cublasLtMatmulDescSetAttribute(
                self._product, attribute, byref(value), ctypes.sizeof(value)
            )
        )

    def _ask(self) -> bool:
        """Whether cuBLASLt knows a way; it is kept."""
        library = self._library
        wish = _made(library.cublasLtMatmulPreferenceCreate)
        wishes: list[tuple[int, Any]] = [(_MOST_WORKSPACE, c_uint64(WORKSPACE))]
        wishes += [(one, c_uint32(_ALIGNED)) for one in _ALIGNMENTS]
        for attribute, value in wishes:
            size = ctypes.sizeof(value)
            _checked(
                library.cublasLtMatmulPreferenceSetAttribute(wish, attribute, byref(value), size)
            )
        number = c_int(0)
        layouts = self._b, self._a, self._out, self._out
        status = library.cublasLtMatmulAlgoGetHeuristic(
            self._handle, self._product, *layouts, wish, 1, byref(self._way), byref(number)
        )
        library.cublasLtMatmulPreferenceDestroy(wish)
        return not status and number.value == 1 and not self._way.state

    def run(self, a: int, b: int, row: int, out: int, workspace: int, stream: int) -> None:
        """Queue it on a stream."""
        self._tell(_BIAS, c_void_p(row))
        _checked(
            self._library.cublasLtMatmul(
                *(self._handle, self._product, self._one, b, self._b, a, self._a),
                *(self._none, out, self._out, out, self._out),
                *(byref(self._way), workspace, self._way.workspace, stream),
            )
        )

    def __del__(self) -> None:
        library = self._library
        for layout in (self._a, self._b, self._out):
            library.cublasLtMatrixLayoutDestroy(layout)
        library.cublasLtMatmulDescDestroy(self._product)


def _made(function: Any, *args: Any) -> Any:
    """The object that a function of cuBLASLt makes."""
    made = c_void_p()
    _checked(function(byref(made), *args))
    return made


def _checked(status: int) -> None:
    if status:
        raise RuntimeError(f"cuBLASLt could not do what it was asked for: status {status}.")


def _found() -> Any:
    """cuBLASLt, with the types of what is called; None where it is not there."""
    for name in _NAMES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        pointer, number, size = c_void_p, c_int, c_size_t
        library.cublasLtMatmulDescSetAttribute.argtypes = pointer, number, pointer, size
        library.cublasLtMatmulPreferenceSetAttribute.argtypes = pointer, number, pointer, size
        made = (pointer, number, c_uint64, c_uint64, c_int64)
        library.cublasLtMatrixLayoutCreate.argtypes = made
        library.cublasLtMatmulAlgoGetHeuristic.argtypes = (
            *(pointer,) * 7,
            *(number, pointer, pointer),
        )
        library.cublasLtMatmul.argtypes = (*(pointer,) * 14, size, pointer)
        return library
    return None
