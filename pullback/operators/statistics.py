"""Spread of data: variances, standard deviations, covariances, correlations."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.dtype import from_numpy_dtype
from pullback.operators.arithmetic import conj, is_complex, true_divide
from pullback.operators.blocks import BLOCK, slices
from pullback.operators.complex import complex as complex_of
from pullback.operators.complex import imag, real
from pullback.operators.convert import astype
from pullback.operators.declare import Array, Dims, Namespace, method, primitive
from pullback.operators.extrema import clamp, clamp_min
from pullback.operators.norms import divide_or_zero
from pullback.operators.options import numpy_spelled
from pullback.operators.powers import sqrt
from pullback.operators.products import matmul
from pullback.operators.reduction import mean, restored, sum, unreduce
from pullback.operators.reduction_kernels import (
    axis_of,
    kept_shape,
    numpy_names,
    reduced_count,
    total,
    total_of_squares,
    without,
)
from pullback.operators.shape import diagonal, reshape, squeeze, transpose, unsqueeze

__all__ = ["corrcoef", "cov", "std", "std_mean", "var", "var_mean"]

# Kernel -------------------------------------------------------------------------------------------


def _moments(
    xp: Namespace, op: str, input: Array, dim: Any, correction: float, keepdim: Any
) -> tuple[Array, Array]:
    """Variance and mean, from the deviations and not from the squares, which would cancel."""
    if input.dtype.kind not in "fcV":
        raise RuntimeError(
            f"{op}: defined for floating-point and complex tensors, not "
            f"{from_numpy_dtype(input.dtype)}; convert first."
        )
    if input.dtype.itemsize == 2:
        single = _moments(xp, op, input.astype(xp.float32), dim, correction, keepdim)
        return single[0].astype(input.dtype), single[1].astype(input.dtype)
    axis = axis_of(dim, input.ndim)
    count = reduced_count(input.shape, dim)
    average = _average(xp, input, axis, count)
    squares = _squared_deviations(xp, input, average, axis)
    if count > 1 and squares.size:
        squares = _without_rounding(xp, input, average, squares, axis)
    # Real, and at least 0: more correction than data gives inf, as in torch.
    variance = xp.true_divide(squares, squares.dtype.type(max(count - correction, 0)))
    shape = average.shape if keepdim else without(input.shape, axis)
    return variance.reshape(shape), average.reshape(shape)


def _average(xp: Namespace, input: Array, axis: Any, count: int) -> Array:
    return xp.asarray(total(xp, input, axis, keepdim=True) / xp.float64(count)).astype(input.dtype)


def _without_rounding(
    xp: Namespace, input: Array, average: Array, squares: Array, axis: Any
) -> Array:
    """Equal elements have no variance, though their mean be rounded: shifted to 0, they show it."""
    limit = xp.square(xp.absolute(average) * (4 * xp.finfo(input.dtype).eps))
    doubtful = squares <= limit * input.size
    if not doubtful.any():
        return squares
    first = tuple(slice(1) if axis is None or i in axis else slice(None) for i in range(input.ndim))
    moved = xp.asarray(input - input[first])
    centre = _average(xp, moved, axis, input.size // squares.size)
    return xp.where(doubtful, _squared_deviations(xp, moved, centre, axis), squares)


def _squared_deviations(xp: Namespace, input: Array, average: Array, axis: Any) -> Array:
    """The sum of squared deviations; the rows of large arrays in blocks that stay in cache."""
    trailing = axis is not None and min(axis) == input.ndim - len(axis)
    if input.size <= BLOCK or not trailing or not input.flags.c_contiguous:
        return total_of_squares(xp, xp.asarray(input - average), axis, keepdim=True)
    rows = input.reshape(math.prod(input.shape[: min(axis)]), -1)
    centres = average.reshape(-1, 1)
    result = xp.empty(len(rows), input.real.dtype)
    for block in slices(*rows.shape):
        result[block] = total_of_squares(xp, rows[block] - centres[block], (1,), keepdim=False)
    return result.reshape(kept_shape(input.shape, axis))


# Rules --------------------------------------------------------------------------------------------


def _scale(shape: Any, dim: Any, correction: float) -> float:
    freedom = reduced_count(shape, dim) - correction
    return 2 / freedom if freedom > 0 else math.inf


def _deviation(input: Any, dim: Any) -> Any:
    return input - mean(input, dim, True)


def _var_adjoint(g: Any, input: Any, dim: Any, correction: float, keepdim: Any) -> Any:
    g = restored(g, input.shape, dim, keepdim) * _scale(input.shape, dim, correction)
    return g * _deviation(input, dim)


def _std_adjoint(g: Any, input: Any, out: Any, dim: Any, correction: float, keepdim: Any) -> Any:
    return _var_adjoint(divide_or_zero(g, out + out), input, dim, correction, keepdim)


def _var_tangent(d_input: Any, input: Any, dim: Any, correction: float, keepdim: Any) -> Any:
    slope = real(conj(_deviation(input, dim)) * d_input)
    return sum(slope, dim, keepdim) * _scale(input.shape, dim, correction)


def _std_tangent(
    d_input: Any, input: Any, out: Any, dim: Any, correction: float, keepdim: Any
) -> Any:
    tangent = _var_tangent(d_input, input, dim, correction, keepdim)
    return divide_or_zero(tangent, out + out)


def _mean_adjoint(g: Any, shape: Any, dim: Any, keepdim: Any) -> Any:
    count = reduced_count(shape, dim)
    return unreduce(g / count if count else g, shape, dim, keepdim)


# Operators ----------------------------------------------------------------------------------------


@primitive(input=_var_adjoint, jvp=_var_tangent, name="var", method=False)
def _var(
    xp: Namespace, input: Array, dim: Dims = None, correction: float = 1, keepdim: bool = False
) -> Array:
    return _moments(xp, "var", input, dim, correction, keepdim)[0]


@primitive(input=_std_adjoint, jvp=_std_tangent, name="std", method=False)
def _std(
    xp: Namespace, input: Array, dim: Dims = None, correction: float = 1, keepdim: bool = False
) -> Array:
    return xp.sqrt(_moments(xp, "std", input, dim, correction, keepdim)[0])


@primitive(
    input=lambda g_spread, g_average, input, dim, correction, keepdim: (
        _var_adjoint(g_spread, input, dim, correction, keepdim)
        + _mean_adjoint(g_average, input.shape, dim, keepdim)
    ),
    jvp=lambda d_input, input, dim, correction, keepdim: (
        _var_tangent(d_input, input, dim, correction, keepdim),
        mean(d_input, dim, keepdim),
    ),
    outputs="spread average",
    name="var_mean",
    method=False,
)
def _var_mean(
    xp: Namespace, input: Array, dim: Dims = None, correction: float = 1, keepdim: bool = False
) -> Any:
    return _moments(xp, "var_mean", input, dim, correction, keepdim)


@primitive(
    input=lambda g_spread, g_average, input, spread, dim, correction, keepdim: (
        _std_adjoint(g_spread, input, spread, dim, correction, keepdim)
        + _mean_adjoint(g_average, input.shape, dim, keepdim)
    ),
    jvp=lambda d_input, input, spread, dim, correction, keepdim: (
        _std_tangent(d_input, input, spread, dim, correction, keepdim),
        mean(d_input, dim, keepdim),
    ),
    outputs="spread average",
    name="std_mean",
    method=False,
)
def _std_mean(
    xp: Namespace, input: Array, dim: Dims = None, correction: float = 1, keepdim: bool = False
) -> Any:
    variance, average = _moments(xp, "std_mean", input, dim, correction, keepdim)
    return xp.sqrt(variance), average


def _arguments(op: str, dim: Any, unbiased: Any, correction: Any) -> tuple[Any, Any]:
    """Dims and correction from the forms `(unbiased)`, `(dim, unbiased)`, `(dim, correction=)`."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{op}(): give `unbiased` or `correction`, not both.")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dim, correction


@method
def var(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Any = None,
    axis: Any = None,
    keepdims: Any = None,
) -> Any:
    """The variance: the mean squared deviation, with `correction` (1) taken off the count.

    >>> import pullback as torch
    >>> torch.var(torch.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    dim, keepdim = numpy_names(dim, keepdim, axis, keepdims)
    dim, correction = _arguments("var", dim, unbiased, correction)
    return _var(input, dim, correction, keepdim, out=out)


@method
def std(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Any = None,
    axis: Any = None,
    keepdims: Any = None,
) -> Any:
    """The standard deviation: the square root of `var`; its gradient is 0 where it is 0."""
    dim, keepdim = numpy_names(dim, keepdim, axis, keepdims)
    dim, correction = _arguments("std", dim, unbiased, correction)
    return _std(input, dim, correction, keepdim, out=out)


@numpy_spelled
def var_mean(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Any = None,
) -> Any:
    """Variance and mean."""
    dim, correction = _arguments("var_mean", dim, unbiased, correction)
    return _var_mean(input, dim, correction, keepdim, out=out)


@numpy_spelled
def std_mean(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    out: Any = None,
) -> Any:
    """Standard deviation and mean."""
    dim, correction = _arguments("std_mean", dim, unbiased, correction)
    return _std_mean(input, dim, correction, keepdim, out=out)


# Several variables --------------------------------------------------------------------------------


@method
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Covariances of variables (rows) over observations (columns), optionally weighted.

    >>> import pullback as torch
    >>> torch.cov(torch.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2 or input._array.dtype.kind == "b":
        raise RuntimeError(
            "cov: needs a tensor of numbers with at most 2 dimensions (variables, observations), "
            f"got {input.dtype} and shape {tuple(input.shape)}."
        )
    if not input.dtype.is_differentiable:
        input = true_divide(input, 1)
    rows = input if input.ndim == 2 else reshape(input, (1, -1))
    weights = _weights(rows, fweights, aweights)
    if weights is None:
        count = rows.shape[1]
        centred = rows - mean(rows, 1, keepdim=True)
        products = matmul(centred, transpose(conj(centred), 0, 1))
        return _squeezed(products / max(count - correction, 0))
    whole = sum(weights)
    centred = rows - sum(rows * weights, 1, keepdim=True) / whole
    products = matmul(centred * weights, transpose(conj(centred), 0, 1))
    lost = correction if aweights is None else correction * sum(weights * aweights) / whole
    return _squeezed(products / clamp_min(whole - lost, 0))


def _squeezed(products: Any) -> Any:
    return squeeze(products) if tuple(products.shape) == (1, 1) else products


def _weights(rows: Any, fweights: Any, aweights: Any) -> Any:
    """Both kinds of weights of the observations, multiplied; None without any."""
    for name, weights in (("fweights", fweights), ("aweights", aweights)):
        if weights is None:
            continue
        if tuple(weights.shape) != (rows.shape[1],):
            raise RuntimeError(
                f"cov: {name} must be one number for each of the {rows.shape[1]} observations, "
                f"got shape {tuple(weights.shape)}."
            )
        if weights.dtype.is_differentiable == (name == "fweights"):
            kind = "integral" if name == "fweights" else "floating-point"
            raise RuntimeError(f"cov: {name} must have an {kind} dtype, got {weights.dtype}.")
        if (weights._array < 0).any():
            raise RuntimeError(f"cov: {name} must not be negative.")
    if fweights is None or aweights is None:
        weights = aweights if fweights is None else fweights
        return None if weights is None else astype(weights, real(rows).dtype)
    return astype(fweights, real(rows).dtype) * aweights


@method
def corrcoef(input: Any) -> Any:
    """Correlation coefficients of variables (rows) over observations (columns)."""
    products = cov(input)
    if not products.ndim:
        return products / products
    spread = sqrt(real(diagonal(products, 0, 0, 1)))
    scaled = products / unsqueeze(spread, 1) / unsqueeze(spread, 0)
    if not is_complex(scaled):
        return clamp(scaled, -1, 1)
    return complex_of(clamp(real(scaled), -1, 1), clamp(imag(scaled), -1, 1))
