"""The calls of cuBLAS and cuBLASLt that `operators/cuda` makes, on the host's memory.

Matrices are read and written by pointer, step and turn, columns first, as cuBLAS does; factors come
by pointer. `calls` counts.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy

__all__ = ["Cublas", "CublasLt"]

try:
    from ml_dtypes import bfloat16
except ImportError:
    bfloat16 = None

_DTYPES: dict[int, Any] = {
    0: numpy.float32,
    1: numpy.float64,
    2: numpy.float16,
    4: numpy.complex64,
    5: numpy.complex128,
    14: bfloat16,
}


def _matrix(pointer: Any, dtype: Any, rows: int, columns: int, lead: int) -> Any:
    """A matrix whose columns follow one another, `lead` elements apart."""
    assert lead >= max(rows, 1), (lead, rows)
    dtype = numpy.dtype(dtype)
    count = lead * (columns - 1) + rows
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(int(pointer))
    flat = numpy.frombuffer(memory, dtype)
    steps = dtype.itemsize, lead * dtype.itemsize
    return numpy.lib.stride_tricks.as_strided(flat, (rows, columns), steps)


def _number(reference: Any) -> Any:
    value = reference._obj
    return complex(value.real, value.imag) if hasattr(value, "imag") else value.value


class Cublas:
    """The library."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def cublasCreate_v2(self, handle: Any) -> int:  # noqa: N802 (cuBLAS's name)
        return 0

    def cublasSetStream_v2(self, handle: Any, stream: Any) -> int:  # noqa: N802
        return 0

    def cublasSetWorkspace_v2(self, handle: Any, memory: Any, size: Any) -> int:  # noqa: N802
        return 0

    def _multiply(
        self,
        turns: tuple[int, int],
        sizes: tuple[int, int, int],
        factors: Any,
        first: Any,
        second: Any,
        out: Any,
    ) -> None:
        m, n, k = sizes
        a = _matrix(*first[:2], *((k, m) if turns[0] else (m, k)), first[2])
        b = _matrix(*second[:2], *((n, k) if turns[1] else (k, n)), second[2])
        c = _matrix(*out[:2], m, n, out[2])
        half = c.dtype.itemsize == 2
        wide = [one.astype(numpy.float32) if half else one for one in (a, b)]
        left, right = (one.T if turn else one for one, turn in zip(wide, turns, strict=True))
        made = _number(factors[0]) * (left @ right)
        if (beta := _number(factors[1])) != 0:
            made = made + beta * c.astype(made.dtype)
        c[...] = made.astype(c.dtype)

    def cublasGemmEx(  # noqa: N802 (cuBLAS's name)
        self, handle, turn_a, turn_b, m, n, k, alpha, a, kind_a, lead_a, b, kind_b, lead_b,
        beta, c, kind_c, lead_c, compute, algorithm,
    ):  # fmt: skip
        self.calls.append("gemm")
        self._multiply(
            (turn_a, turn_b),
            (m, n, k),
            (alpha, beta),
            (a, _DTYPES[kind_a], lead_a),
            (b, _DTYPES[kind_b], lead_b),
            (c, _DTYPES[kind_c], lead_c),
        )
        return 0

    def cublasGemmStridedBatchedEx(  # noqa: N802 (cuBLAS's name)
        self, handle, turn_a, turn_b, m, n, k, alpha, a, kind_a, lead_a, step_a, b, kind_b, lead_b,
        step_b, beta, c, kind_c, lead_c, step_c, count, compute, algorithm,
    ):  # fmt: skip
        self.calls.append("batched gemm")
        kinds = [_DTYPES[kind] for kind in (kind_a, kind_b, kind_c)]
        sizes = [numpy.dtype(kind).itemsize for kind in kinds]
        for i in range(count):
            self._multiply(
                (turn_a, turn_b),
                (m, n, k),
                (alpha, beta),
                (a + i * step_a * sizes[0], kinds[0], lead_a),
                (b + i * step_b * sizes[1], kinds[1], lead_b),
                (c + i * step_c * sizes[2], kinds[2], lead_c),
            )
        return 0


class CublasLt:
    """The other library: descriptions are numbered, and told by reference."""

    def __init__(self, products: Cublas) -> None:
        self._products = products
        self._made: dict[int, dict[Any, Any]] = {}
        self._count = 0

    def _new(self, reference: Any, **known: Any) -> int:
        self._count += 1
        self._made[self._count] = dict(known)
        reference._obj.value = self._count
        return 0

    def _gone(self, made: Any) -> int:
        del self._made[made.value]
        return 0

    def _told(self, made: Any, attribute: int, value: Any, size: int) -> int:
        assert size == ctypes.sizeof(value._obj)
        self._made[made.value][attribute] = value._obj.value
        return 0

    def cublasLtCreate(self, handle: Any) -> int:  # noqa: N802 (cuBLASLt's names, all of them)
        return self._new(handle)

    def cublasLtMatmulDescCreate(self, made: Any, compute: int, scale: int) -> int:  # noqa: N802
        return self._new(made, compute=compute, scale=scale)

    def cublasLtMatrixLayoutCreate(  # noqa: N802
        self, made: Any, kind: int, rows: int, columns: int, lead: int
    ) -> int:
        return self._new(made, kind=kind, rows=rows, columns=columns, lead=lead)

    def cublasLtMatmulPreferenceCreate(self, made: Any) -> int:  # noqa: N802
        return self._new(made)

    def cublasLtMatmulAlgoGetHeuristic(  # noqa: N802
        self, handle, product, a, b, c, d, wish, wanted, way, number
    ):
        sides = [self._made[one.value] for one in (a, b, c)]
        number._obj.value = int(all(one["kind"] != 1 for one in sides))  # none for double
        way._obj.workspace = 64
        return 0

    def cublasLtMatmul(  # noqa: N802
        self, handle, product, one, a, a_like, b, b_like, none, c, c_like, d, d_like, way,
        workspace, size, stream,
    ):  # fmt: skip
        self._products.calls.append("gemm with bias")
        told = self._made[product.value]
        assert told[7] == 4, "what comes afterwards is the sum with a row"
        assert size == 64
        assert workspace
        turns = told[3], told[4]
        left, right, out = (self._made[like.value] for like in (a_like, b_like, d_like))
        m, n, k = out["rows"], out["columns"], left["rows" if turns[0] else "columns"]
        assert (right["columns"] if turns[1] else right["rows"]) == k
        matrices = [
            (at, _DTYPES[like["kind"]], like["lead"])
            for at, like in ((a, left), (b, right), (d, out))
        ]
        self._products._multiply(turns, (m, n, k), (one, none), *matrices)
        made = _matrix(d, matrices[2][1], m, n, out["lead"])
        row = _matrix(told[8], matrices[2][1], m, 1, m)
        # Rounded once on a device; here the product was rounded before.
        made[...] = (made.astype(numpy.float64) + row.astype(numpy.float64)).astype(made.dtype)
        return 0

    cublasLtMatmulDescSetAttribute = _told  # noqa: N815
    cublasLtMatmulPreferenceSetAttribute = _told  # noqa: N815
    cublasLtMatrixLayoutDestroy = _gone  # noqa: N815
    cublasLtMatmulDescDestroy = _gone  # noqa: N815
    cublasLtMatmulPreferenceDestroy = _gone  # noqa: N815
