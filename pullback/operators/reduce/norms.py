"""Norms of vectors: all elements, or those along some dimensions, as one number each.

At the zero vector, where norms have a corner, the gradient is 0 and so are those of higher order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import some
from pullback.core.dtype import from_numpy_dtype, numpy_dtype
from pullback.core.tensor import Tensor
from pullback.operators.arrays.formats import ordered
from pullback.operators.arrays.reductions import MANY, axis_of, check_keepdim, converted, reduced
from pullback.operators.arrays.sums import few_sums, flat_total, total, total_of_squares, totals
from pullback.operators.batching import front
from pullback.operators.conditions import floating, given
from pullback.operators.create.sizes import zeros_like
from pullback.operators.declare import (
    Array,
    Dim,
    Dims,
    Namespace,
    Op,
    elementwise,
    kernel,
    method,
    primitive,
)
from pullback.operators.indexing.selection import where
from pullback.operators.options import as_dim
from pullback.operators.pointwise.arithmetic import conj, keep_where
from pullback.operators.pointwise.complex import real
from pullback.operators.pointwise.direction import abs, sgn
from pullback.operators.reduce.sums import restored, sum
from pullback.operators.running.naming import shown_as

FOUND_IN = {"torch": "dist norm"}


@elementwise(
    input=lambda g, other: divide_or_zero(g, conj(other)),
    other=lambda g, other, out: divide_or_zero(-g * conj(out), conj(other)),
    promote="float",
    method=False,
    has_out=False,
    aten="",
)
def divide_or_zero(xp: Namespace, input: Array, other: Array) -> Array:
    """The quotient, and 0 where the divisor is 0; so for its derivatives."""
    quotient = xp.true_divide(input, other)
    zero = xp.equal(other, 0)
    return xp.where(zero, 0, quotient) if some(zero) else quotient


# The slope of |x| to the power of `order`, up to what depends on the norm alone.
def _power_slope(x: Any, order: float) -> Any:
    if order > 2:
        return x * abs(x) ** (order - 2)
    slope = abs(x) ** (order - 1)
    return sgn(x) * (keep_where(slope, x != 0) if order < 1 else slope)


def _slope(scale: Any, x: Any, norm: Any, order: float, dim: Any) -> Any:
    """The derivative of the norm by each element, times `scale`; both broadcast to `x`."""
    if order == 2:
        return x * divide_or_zero(scale, norm)
    if order == 1:
        return sgn(x) * scale
    if math.isinf(order):
        ties = abs(x) == norm
        count = sum(ties, dim, True, dtype=norm.dtype)
        return sgn(x) * keep_where(scale / count, ties)
    if order < 1:
        return _power_slope(x, order) * (scale * norm ** (1 - order))
    return _power_slope(x, order) * divide_or_zero(scale, norm ** (order - 1))


def _adjoint(g: Any, input: Any, out: Any, ord: float, dim: Any, keepdim: Any) -> Any:
    if ord == 0:
        return None  # a count; torch has no gradient here, and a tangent of zeros
    g, out = restored(g, input.shape, dim, keepdim), restored(out, input.shape, dim, keepdim)
    return _slope(g, input, out, ord, dim)


def _tangent(d_input: Any, input: Any, out: Any, ord: float, dim: Any, keepdim: Any) -> Any:
    if ord == 0:
        return zeros_like(out)
    slope = _slope(1, input, restored(out, input.shape, dim, keepdim), ord, dim)
    return sum(real(conj(slope) * d_input), dim, keepdim)


@primitive(
    input=_adjoint,
    jvp=_tangent,
    space="linalg",
    node="LinalgVectorNormBackward0",
    aten="linalg_vector_norm.default",
    meta="lengths kept",
)
def vector_norm(
    xp: Namespace,
    input: Array,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Array:
    """The `ord`-th root of the sum of absolute values to that power; inf: largest, 0: a count.

    >>> import pullback as torch
    >>> torch.linalg.vector_norm(torch.tensor([3.0, -4.0]), ord=1)
    tensor(7.)
    """
    if input.dtype.kind == "W":  # halves of complex numbers are for storing; their norms are halves
        wide = _in_dtype("vector_norm", input.astype(numpy.complex64), dtype)
        made = _norm(xp, wide, ord, dim, keepdim)
        return made.astype(numpy.float16) if dtype is None else made
    input = _in_dtype("vector_norm", input, dtype)
    if not input.size and (ord < 0 or math.isinf(ord)):
        axis = axis_of(dim, input.ndim)
        if axis is None or 0 in [input.shape[i] for i in axis]:
            raise RuntimeError(
                f"vector_norm: the norm of order {ord} of no elements is undefined (shape "
                f"{input.shape}, dim {dim})."
            )
    if input.dtype.itemsize == 2:
        return _norm(xp, input.astype(xp.float32), ord, dim, keepdim).astype(input.dtype)
    return _norm(xp, input, ord, dim, keepdim)


@kernel(vector_norm, when=given(ord=2, dtype=None) & floating)
def _unchecked(xp: Namespace, input: Array, dim: Any, keepdim: bool, input_ndim: int) -> Array:
    return _euclidean(xp, input, axis_of(dim, input_ndim), keepdim)


def _in_dtype(op: str, x: Array, dtype: Any) -> Array:
    if x.dtype.kind not in "fcV":
        raise RuntimeError(
            f"{op}: defined for floating-point and complex tensors, not "
            f"{from_numpy_dtype(x.dtype)}; convert first."
        )
    wanted = x.dtype if dtype is None else numpy_dtype(dtype)
    same_kind = wanted.kind in "fcV" and (wanted.kind == "c") == (x.dtype.kind == "c")
    if not same_kind or numpy.promote_types(x.dtype, wanted) != wanted:
        raise RuntimeError(
            f"{op}: a norm of {from_numpy_dtype(x.dtype)} cannot be computed in {dtype}; that must "
            "be complex if the tensor is, real if not, and no narrower."
        )
    return converted(x, dtype)


def _norm(xp: Namespace, x: Array, ord: float, dim: Any, keepdim: Any) -> Array:
    axis = axis_of(dim, x.ndim)
    if ord == 2:
        return _euclidean(xp, x, axis, keepdim)
    if ord == 0:
        count = reduced(xp.add, x != 0, axis, xp.int64, keepdim)
        return xp.asarray(count).astype(x.real.dtype)
    size = xp.absolute(x)
    if ord == 1:
        return total(xp, size, axis, keepdim)
    if math.isinf(ord):
        return reduced(xp.maximum if ord > 0 else xp.minimum, size, axis, None, keepdim)
    return xp.asarray(total(xp, size**ord, axis, keepdim)) ** (1 / ord)


# Roots of sums of squares between these are right: no square was too small or too large.
_RIGHT = {
    char: (float(limits.tiny) ** 0.5 * 1e4, float(limits.max) ** 0.5)
    for char, limits in ((char, numpy.finfo(char)) for char in "fdFD")
}


def _euclidean(xp: Namespace, x: Array, axis: Any, keepdim: Any) -> Array:
    """The root of the sum of squares, scaled by the largest element if squares leave the range."""
    char = getattr(x.dtype, "char", "")
    if char not in _RIGHT:  # a dtype for storing, which says so
        return xp.sqrt(total_of_squares(xp, x, axis, keepdim))
    low, high = _RIGHT[char]
    if axis is None and not keepdim and x.flags.c_contiguous and char in "fd":
        flat = x.ravel()
        square = flat_total(xp, flat, flat)
        if xp is numpy:  # a number of Python's: NumPy takes five times as long over one of its own
            root = math.sqrt(square)
            if low < root < high:
                return xp.array(root, x.dtype)
        else:
            result = xp.sqrt(square)
            if low < result < high:
                return result
    if x.size < MANY and x.ndim and char in "fd":
        if axis == (1,) and x.ndim == 2 and keepdim is False and xp is numpy:
            squares = totals(numpy, x, x)
        else:
            squares = few_sums(xp, xp.multiply(x, x), axis, keepdim)
    else:
        squares = total_of_squares(xp, x, axis, keepdim)
    result = xp.sqrt(squares)
    if not x.size or _are_within(xp, result, low, high):
        return result
    size = xp.absolute(x)  # a complex infinity, divided by a number, is NaN
    largest = size.max(axis, keepdims=True)
    largest = xp.where(xp.isfinite(largest) & (largest > 0), largest, largest.dtype.type(1))
    result = xp.sqrt(total_of_squares(xp, size / largest, axis, keepdim))
    return result * largest.reshape(result.shape)


def _are_within(xp: Namespace, norms: Array, low: float, high: float) -> bool:
    """Whether all norms are between the bounds; a NaN may count as either."""
    if norms.size <= 8 and xp is numpy:  # 0.2 us for two, the lines below 0.8
        for one in norms.ravel().tolist():  # noqa: SIM110 (`all` of a generator takes 0.4)
            if not low < one < high:
                return False
        return True
    # The places of extremes take half of the time of the extremes themselves, where there are few.
    return bool(norms.item(norms.argmin()) > low and norms.item(norms.argmax()) < high)


# Under torch's older names ------------------------------------------------------------------------


@method
def norm(
    input: Any,
    p: float | str | None = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    dtype: Any = None,
) -> Any:
    """The norm of order `p` over `dim`; "fro" is 2, "nuc" the sum of singular values of matrices.

    >>> import pullback as torch
    >>> torch.norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    check_keepdim("norm", keepdim)
    if p == "nuc":
        from pullback.operators.linalg.matrix_functions import (
            matrix_norm,  # which is built on this file
        )

        dims = (-2, -1) if dim is None else (dim,) if isinstance(dim, int) else dim
        return matrix_norm(input, p, dims, keepdim, dtype=dtype, out=out)
    if isinstance(p, str):
        if p != "fro":
            raise RuntimeError(f"norm: order {p!r} is not known; give a number, 'fro' or 'nuc'.")
        if dim is not None and isinstance(dim, tuple | list) and len(dim) > 2:
            raise RuntimeError(
                f"norm: 'fro' is the norm of a matrix, over at most 2 dims, not {dim}; use p=2."
            )
    order = 2 if p is None or p == "fro" else p
    if dtype is None and out is None:  # keywords cost every call 0.04 us
        return vector_norm(input, order, dim, keepdim)
    return vector_norm(input, order, dim, keepdim, dtype=dtype, out=out)


@method
def dist(input: Any, other: Any, p: float = 2, *, out: Any = None) -> Any:
    """The norm of order `p` of the difference of two tensors.

    >>> import pullback as torch
    >>> torch.dist(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0]))
    tensor(5.)
    """
    for name, one in (("input", input), ("other", other)):  # a difference would take arrays, too
        if not isinstance(one, Tensor):
            raise errors.not_a_tensor("dist", name, one)
    return shown_as("DistBackward0", vector_norm(input - other, p, out=out))


# Torch's small number keeps the quotient finite; so results agree to the last digit.
_SMALL = 1e-7


def _others(shape: Any, dim: int) -> tuple[int, ...]:
    return tuple(i for i in range(len(shape)) if i != dim)


def _scaling(input: Any, p: float, dim: int, maxnorm: float) -> tuple[Any, Any, Any]:
    """Norms of the slices along `dim`, their factors, and how those change with the norms."""
    size = vector_norm(input, p, _others(input.shape, dim), True)
    large = size > maxnorm
    factor = maxnorm / (size + _SMALL)
    return size, where(large, factor, 1.0), keep_where(-factor / (size + _SMALL), large)


def _renorm_adjoint(g: Any, input: Any, p: float, dim: int, maxnorm: float) -> Any:
    size, scale, change = _scaling(input, p, dim, maxnorm)
    others = _others(input.shape, dim)
    pull = sum(real(conj(input) * g), others, True) * change
    return g * scale + _slope(pull, input, size, p, others)


def _renorm_tangent(d_input: Any, input: Any, p: float, dim: int, maxnorm: float) -> Any:
    size, scale, change = _scaling(input, p, dim, maxnorm)
    others = _others(input.shape, dim)
    slope = _slope(change, input, size, p, others)
    growth = sum(real(conj(slope) * d_input), others, True)
    return d_input * scale + input * growth


def _slices_of_all(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """For vmap: the slices along `dim` of all examples are so many more slices."""
    ((value, bdim),) = split.values()
    dim = as_dim(options["dim"], value.ndim - 1, op.name) + 1
    lines = front(value, bdim).movedim(dim, 1)
    whole = lines.reshape((size * lines.shape[1], *lines.shape[2:]))
    return op.function(whole, **{**options, "dim": 0}).reshape(lines.shape).movedim(1, dim)


@primitive(input=_renorm_adjoint, jvp=_renorm_tangent, inplace=True, batch=_slices_of_all)
@ordered
def renorm(xp: Namespace, input: Array, p: float, dim: Dim, maxnorm: float) -> Array:
    """The slices along `dim` whose norm of order `p` exceeds `maxnorm` scaled down to it.

    >>> import pullback as torch
    >>> torch.renorm(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if input.ndim < 2:
        raise RuntimeError(f"renorm: needs at least 2 dimensions, got shape {input.shape}.")
    if p <= 0 or maxnorm < 0:
        raise RuntimeError(f"renorm: needs p > 0 and maxnorm >= 0, got p {p}, maxnorm {maxnorm}.")
    input = _in_dtype("renorm", input, None)
    precise = input.astype(xp.float32) if input.dtype.itemsize == 2 else input
    size = _norm(xp, precise, p, _others(input.shape, dim), keepdim=True)
    scale = xp.where(size > maxnorm, maxnorm / (size + _SMALL), 1.0)
    return input * scale.astype(input.real.dtype)
