"""Products of matrices: one call of cuBLAS each, also of half precision and of transposed ones."""

from __future__ import annotations

from typing import Any

from pullback.operators.cuda.found import found
from pullback.operators.cuda.kernel_overrides import replace
from pullback.operators.cuda.lacking import LACKING

__all__ = ["enter"]


def _matmul(a: Any, b: Any, out: Any = None, **options: Any) -> Any:
    library = found.library
    return library.blas.matmul(library.xp.brought(a), library.xp.brought(b), out)


def _folded(xp: Any, a: Any, b: Any) -> Any:
    return found.library.blas.matmul(a, b)


def _product(xp: Any, op: str, a: Any, b: Any) -> Any:
    from pullback.operators.linalg import products

    kind = a.dtype.char
    if a.dtype != b.dtype or kind not in "fdFDeE":
        return found.library.original(products.product)(xp, op, a, b)
    return found.library.blas.matmul(a, b)


def _linear(xp: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    from pullback.operators.linalg import affine

    usual = input.ndim >= 2 == weight.ndim and input.dtype is weight.dtype
    if not (usual and input.dtype.char in "fdFDeE" and input.shape[-1] == weight.shape[1]):
        declared: Any = affine.linear
        return found.library.original(declared.op.forward)(xp, input, weight, bias)
    if bias is not None and bias.shape == weight.shape[:1]:
        result = found.library.biased.product(input, weight.T, bias)
        if result is not None:
            return result
    result = found.library.blas.matmul(input, weight.T)
    if bias is None:
        return result
    if bias.dtype is result.dtype and bias.shape == result.shape[-1:]:
        return found.library.rows.add_row(result, bias)
    return found.library.specialised(affine._shifted)(result, bias)


def _totals(xp: Any, a: Any, b: Any = None) -> Any:
    """The sum of each row of `a`, or of `a * b`."""
    return a.sum(1) if b is None else (a * b).sum(1)


def _flat_total(xp: Any, x: Any, y: Any = None) -> Any:
    return x.sum() if y is None else x.dot(y)


def enter() -> None:
    """Into the tables."""
    from pullback.operators.arrays import sums
    from pullback.operators.linalg import affine, products

    LACKING["matmul"] = LACKING["ufunc matmul"] = LACKING["dot"] = _matmul
    replace(
        {
            products._folded: _folded,
            products.product: _product,
            affine.linear: _linear,
            sums.totals: _totals,
            sums.flat_total: _flat_total,
        }
    )
