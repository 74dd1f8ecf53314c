"""Sums with a product in one step: addmm and its relatives."""

from __future__ import annotations

from typing import Any

from pullback.core.arrays import F32
from pullback.core.dtype import from_numpy_dtype
from pullback.core.promotion import is_half
from pullback.operators.arrays.products import times
from pullback.operators.arrays.sums import sums
from pullback.operators.conditions import host, says
from pullback.operators.declare import Array, Namespace, Number, kernel, primitive
from pullback.operators.linalg import batch as batch_products
from pullback.operators.linalg.checks import adjoint
from pullback.operators.linalg.products import (
    are_halves,
    batch_product,
    bmm,
    check_ndim,
    checked_product,
    expands,
    has_blas,
    matmul,
    mm,
    mv,
    outer,
    times_conjugate,
    total,
)
from pullback.operators.options import as_number
from pullback.operators.pointwise.arithmetic import check_factor, conj, in_single
from pullback.operators.reduce.sums import sum
from pullback.operators.running.writes import scalar_of

FOUND_IN = {"torch": "addmv_"}


def _scaled(g: Any, factor: Any) -> Any:
    return g if factor == 1 else g * conj(factor)


def _times(tangent: Any, factor: Any) -> Any:
    """As `_scaled`, the other way: a tangent meets the factor itself."""
    return tangent if factor == 1 else tangent * factor


_UNREAD_BY_ZERO = {"addmm", "addmv", "addbmm"}  # what BLAS does, and torch at any size


def _plus(xp: Namespace, op: str, result: Array, input: Array, beta: Any, alpha: Any) -> Array:
    """`beta * input + alpha * result`, into `result`, which is new."""
    if input.dtype is result.dtype and alpha == 1 == beta and result.ndim:
        try:
            result += input
        except ValueError:
            raise _does_not_expand(op, input, result) from None
        return result
    if input.dtype != result.dtype:
        raise RuntimeError(
            f"{op}: input has dtype {from_numpy_dtype(input.dtype)}, the product has "
            f"{from_numpy_dtype(result.dtype)}; convert one of them."
        )
    if not expands(input.shape, result.shape):
        raise _does_not_expand(op, input, result)
    if is_half(result.dtype) and not alpha == 1 == beta:  # in single, rounded once
        wide = _plus(xp, op, result.astype(F32), input.astype(F32), beta, alpha)
        return wide.astype(result.dtype)
    if alpha != 1:
        factor = _factor(op, "alpha", alpha, result)
        if alpha == 0 and op in _UNREAD_BY_ZERO:  # whatever the product holds
            result = xp.zeros_like(result)
        else:
            result *= factor
    if beta == 0:  # whatever input holds, infinite or not
        return result
    if beta != 1:
        input = input * _factor(op, "beta", beta, result)
    if result.ndim == 0:
        return result + input
    result += input
    return result


def _does_not_expand(op: str, input: Array, result: Array) -> RuntimeError:
    return RuntimeError(
        f"{op}: input of shape {input.shape} does not expand to the product's {result.shape}."
    )


def _plus_tangent(
    multiply: Any, d_input: Any, d_a: Any, d_b: Any, a: Any, b: Any, beta: Any, alpha: Any
) -> Any:
    """The tangent of `beta * input + alpha * multiply(a, b)`."""
    return total(
        d_input is not None and _times(d_input, beta),
        d_a is not None and _times(multiply(d_a, b), alpha),
        d_b is not None and _times(multiply(a, d_b), alpha),
    )


def _factor(op: str, name: str, value: Any, like: Array) -> Any:
    value = as_number(value, op, name)
    if isinstance(value, complex) and like.dtype.kind != "c":
        raise RuntimeError(
            f"{op}: {name} is the complex number {value}, but the tensors are "
            f"{from_numpy_dtype(like.dtype)}."
        )
    return scalar_of(op, value, like.dtype)


@primitive(
    batch=batch_products.plus_product,
    input=lambda g, beta: _scaled(g, beta),
    mat1=lambda g, mat2, alpha: _scaled(mm(g, adjoint(mat2)), alpha),
    mat2=lambda g, mat1, alpha: _scaled(mm(adjoint(mat1), g), alpha),
    jvp=lambda d_input, d_mat1, d_mat2, mat1, mat2, beta, alpha: _plus_tangent(
        mm, d_input, d_mat1, d_mat2, mat1, mat2, beta, alpha
    ),
    inplace=True,
    meta="lengths kept",
    once_positional="beta alpha",
)
def addmm(
    xp: Namespace, input: Array, mat1: Array, mat2: Array, *, beta: Number = 1, alpha: Number = 1
) -> Array:
    """`beta * input + alpha * (mat1 @ mat2)`; `input` broadcasts.

    >>> import pullback as torch
    >>> torch.addmm(torch.ones(1, 2), torch.ones(1, 3), torch.ones(3, 2), alpha=2)
    tensor([[7., 7.]])
    """
    if are_halves(xp, input, mat1, mat2):
        return in_single(xp, addmm, input, mat1, mat2, beta=beta, alpha=alpha)
    result = checked_product(xp, "addmm", mat1, mat2, mat1=2, mat2=2)
    return _plus(xp, "addmm", result, input, beta, alpha)


_matrices = says("mat1_ndim == 2 == mat2_ndim", "mat1_dtype is mat2_dtype")
_fitting = says("mat1_shape[1] == len(mat2)")


@kernel(addmm, when=host & _matrices & has_blas.of("mat1") & _fitting)
def _to_matrices(
    xp: Namespace, input: Array, mat1: Array, mat2: Array, beta: Any, alpha: Any
) -> Array:
    return _plus(xp, "addmm", times(mat1, mat2), input, beta, alpha)


@primitive(
    batch=batch_products.plus_product,
    input=lambda g, beta: _scaled(g, beta),
    mat=lambda g, vec, alpha: _scaled(outer(g, conj(vec)), alpha),
    vec=lambda g, mat, alpha: _scaled(mv(adjoint(mat), g), alpha),
    jvp=lambda d_input, d_mat, d_vec, mat, vec, beta, alpha: _plus_tangent(
        mv, d_input, d_mat, d_vec, mat, vec, beta, alpha
    ),
    inplace=True,
    meta="lengths kept",
    once_positional="beta alpha",
)
def addmv(
    xp: Namespace, input: Array, mat: Array, vec: Array, *, beta: Number = 1, alpha: Number = 1
) -> Array:
    """`beta * input + alpha * (mat @ vec)`; `input` broadcasts.

    >>> import pullback as torch
    >>> torch.addmv(torch.ones(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
    tensor([4., 8.])
    """
    if are_halves(xp, input, mat, vec):
        return in_single(xp, addmv, input, mat, vec, beta=beta, alpha=alpha)
    result = checked_product(xp, "addmv", mat, vec, mat=2, vec=1)
    return _plus(xp, "addmv", result, input, beta, alpha)


@primitive(
    casts_out=True,
    batch=batch_products.plus_product,
    input=lambda g, beta: _scaled(g, beta),
    vec1=lambda g, vec2, alpha: _scaled(times_conjugate(g, vec2), alpha),
    vec2=lambda g, vec1, alpha: _scaled(times_conjugate(g.mT, vec1), alpha),
    jvp=lambda d_input, d_vec1, d_vec2, vec1, vec2, beta, alpha: _plus_tangent(
        outer, d_input, d_vec1, d_vec2, vec1, vec2, beta, alpha
    ),
    inplace=True,
    promote="same",
    numbers=False,
    meta="lengths kept",
    once_positional="beta alpha",
)
def addr(
    xp: Namespace, input: Array, vec1: Array, vec2: Array, *, beta: Number = 1, alpha: Number = 1
) -> Array:
    """`beta * input + alpha * outer(vec1, vec2)`; `input` broadcasts.

    >>> import pullback as torch
    >>> torch.addr(torch.zeros(2, 2), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    check_ndim("addr", "vec1", vec1, 1)
    check_ndim("addr", "vec2", vec2, 1)
    for name, number in (("beta", beta), ("alpha", alpha)):
        check_factor("addr", name, number, input.dtype)
    return _plus(xp, "addr", vec1[:, None] * vec2, input, beta, alpha)


def _addbmm_tangent(
    d_input: Any, d_batch1: Any, d_batch2: Any, batch1: Any, batch2: Any, beta: Any, alpha: Any
) -> Any:
    return total(
        d_input is not None and _times(d_input, beta),
        d_batch1 is not None and _times(sum(bmm(d_batch1, batch2), 0), alpha),
        d_batch2 is not None and _times(sum(bmm(batch1, d_batch2), 0), alpha),
    )


@primitive(
    batch=batch_products.plus_product,
    input=lambda g, beta: _scaled(g, beta),
    batch1=lambda g, batch2, alpha: _scaled(matmul(g, adjoint(batch2)), alpha),
    batch2=lambda g, batch1, alpha: _scaled(matmul(adjoint(batch1), g), alpha),
    jvp=_addbmm_tangent,
    inplace=True,
    meta="lengths kept",
    once_positional="beta alpha",
)
def addbmm(
    xp: Namespace,
    input: Array,
    batch1: Array,
    batch2: Array,
    *,
    beta: Number = 1,
    alpha: Number = 1,
) -> Array:
    """`beta * input + alpha * (batch1 @ batch2).sum(0)`; `input` broadcasts.

    >>> import pullback as torch
    >>> torch.addbmm(torch.zeros(1, 1), torch.ones(3, 1, 2), torch.ones(3, 2, 1))
    tensor([[6.]])
    """
    if are_halves(xp, input, batch1, batch2):
        return in_single(xp, addbmm, input, batch1, batch2, beta=beta, alpha=alpha)
    result = sums(xp, batch_product(xp, "addbmm", batch1, batch2), (0,), keepdim=False)
    return _plus(xp, "addbmm", result, input, beta, alpha)


@primitive(
    batch=batch_products.plus_product,
    input=lambda g, beta: _scaled(g, beta),
    batch1=lambda g, batch2, alpha: _scaled(bmm(g, adjoint(batch2)), alpha),
    batch2=lambda g, batch1, alpha: _scaled(bmm(adjoint(batch1), g), alpha),
    jvp=lambda d_input, d_batch1, d_batch2, batch1, batch2, beta, alpha: _plus_tangent(
        bmm, d_input, d_batch1, d_batch2, batch1, batch2, beta, alpha
    ),
    inplace=True,
    meta="lengths kept",
    once_positional="beta alpha",
)
def baddbmm(
    xp: Namespace,
    input: Array,
    batch1: Array,
    batch2: Array,
    *,
    beta: Number = 1,
    alpha: Number = 1,
) -> Array:
    """`beta * input + alpha * (batch1 @ batch2)`, matrix by matrix; `input` broadcasts.

    >>> import pullback as torch
    >>> torch.baddbmm(torch.ones(2, 1, 1), torch.ones(2, 1, 3), torch.ones(2, 3, 1))
    tensor([[[4.]],
    <BLANKLINE>
            [[4.]]])
    """
    if are_halves(xp, input, batch1, batch2):
        return in_single(xp, baddbmm, input, batch1, batch2, beta=beta, alpha=alpha)
    result = batch_product(xp, "baddbmm", batch1, batch2)
    return _plus(xp, "baddbmm", result, input, beta, alpha)
