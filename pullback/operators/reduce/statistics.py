"""Spread of data: variances, standard deviations, covariances, correlations."""

from __future__ import annotations

import math
import warnings
from functools import lru_cache
from typing import Any

import numpy

from pullback.core import origin
from pullback.core.arrays import F32, F64, LIBRARIES, some
from pullback.core.dtype import from_numpy_dtype
from pullback.core.tensor import Tensor
from pullback.operators.arrays.blocks import BLOCK, slices
from pullback.operators.arrays.reductions import (
    MANY,
    axis_of,
    check_keepdim,
    kept_shape,
    number,
    numpy_names,
    reduced_count,
    without,
)
from pullback.operators.arrays.rows import FEW, SHORT, Squares
from pullback.operators.arrays.sums import few_sums, total, total_of_squares
from pullback.operators.conditions import (
    at_most,
    floating,
    given,
    has_dims,
    host,
    matrix,
    not_empty,
    says,
)
from pullback.operators.declare import (
    REQUIRED,
    Array,
    Dims,
    Namespace,
    kernel,
    method,
    primitive,
    quick,
)
from pullback.operators.linalg.products import matmul
from pullback.operators.options import as_dims, numpy_named, operand
from pullback.operators.pointwise.arithmetic import conj, is_complex, keep_where, true_divide
from pullback.operators.pointwise.complex import complex as complex_of
from pullback.operators.pointwise.complex import imag, real
from pullback.operators.pointwise.extrema import clamp, clamp_min
from pullback.operators.pointwise.powers import sqrt
from pullback.operators.reduce.norms import divide_or_zero
from pullback.operators.reduce.sums import mean, restored, spread_mean, sum
from pullback.operators.shape.reshaping import diagonal, reshape, squeeze, transpose, unsqueeze
from pullback.operators.tensor.convert import astype
from pullback.operators.variants import named

FOUND_IN = {"torch": "corrcoef cov std std_mean var var_mean"}

# Kernel -------------------------------------------------------------------------------------------


def _few_spreads(
    xp: Namespace, op: str, input: Array, whole: bool, width: int, count: float
) -> Array:
    """The same of all of a few float32, or of rows, in double: means over `count` of `width`.

    One product gives the deviations, times their number.
    """
    if whole:
        off = input.ravel().dot(_CENTRED[width, "d"])
        spread = float(off.dot(off)) / (width * width * count)
        return xp.array(math.sqrt(spread) if op == "std" else spread, F32)
    off = input.dot(_CENTRED[width, "d"])
    squares = xp.multiply(off, off, off).dot(_shares(width, count))
    return (xp.sqrt(squares) if op == "std" else squares).astype(F32)


# Whole numbers, so that equal float32 have deviations of exactly 0 in double. A last column of
# zeros makes NaN of infinities, as subtracting an infinite mean would.
_CENTRED = Squares(lambda n: numpy.eye(n, n + 1) * n - (numpy.arange(n + 1) < n))


@lru_cache(256)
def _shares(width: int, count: float) -> Array:
    """What makes a mean over `count` of squares that are `width` times `width` too large."""
    return numpy.full(width + 1, 1 / (width * width * count))


def _few_moments(
    xp: Namespace, input: Array, axis: Any, correction: float, keepdim: Any
) -> tuple[Array, Array] | None:
    """Variance and mean (with its dims) of few elements in as few calls as it takes, in double.

    None where the variance may be nothing but rounding. The mean of equal float32 is exact in
    double precision, and their variance 0.
    """
    off = input.astype(F64)
    average = few_sums(xp, off, axis, True)
    count = off.size // average.size
    xp.true_divide(average, number(count, F64), average)
    xp.subtract(off, average, off)
    xp.multiply(off, off, off)
    squares = few_sums(xp, off, axis, keepdim)
    if (
        input.dtype.char == "d"
        and (squares.reshape(average.shape) <= _limit(average, off.size)).any()
    ):
        return None
    return xp.true_divide(squares, number(max(count - correction, 0), F64)), average


def _limit(average: Array, size: int) -> Array:
    """Sums of squared deviations up to here may be nothing but the rounding of the average."""
    eps = 2.0**-52 if average.dtype.char in "dD" else 2.0**-23
    return (abs(average) * (4 * eps)) ** 2 * size


def _moments(
    xp: Namespace, op: str, input: Array, dim: Any, correction: float, keepdim: Any
) -> tuple[Array, Array]:
    """Variance or standard deviation, as `op` says, and mean.

    From the deviations and not from the squares, which would cancel.
    """
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
    if input.dtype.char == "f" and _leave_single(squares, count):
        wide = _moments(xp, op, input.astype(xp.float64), dim, correction, keepdim)
        return wide[0].astype(input.dtype), wide[1].astype(input.dtype)
    if count > 1 and squares.size:
        squares = _without_rounding(xp, input, average, squares, axis)
    # Real, and at least 0: more correction than data gives inf, as in torch.
    spread = xp.true_divide(squares, squares.dtype.type(max(count - correction, 0)))
    spread = xp.sqrt(spread) if op.startswith("std") else spread
    shape = average.shape if keepdim else without(input.shape, axis)
    return spread.reshape(shape), average.reshape(shape)


_LEAST_SQUARE = 1e-31  # below, single precision has not all its digits


def _leave_single(squares: Array, count: int) -> bool:
    """Whether squares are beyond the range of single precision, where deviations are not.

    So are those of equal elements, to no harm. A device is not asked.
    """
    if type(squares) in LIBRARIES:
        return False
    return some((squares == math.inf) | (squares < count * _LEAST_SQUARE))


def _average(xp: Namespace, input: Array, axis: Any, count: int) -> Array:
    return xp.asarray(total(xp, input, axis, keepdim=True) / xp.float64(count)).astype(input.dtype)


def _without_rounding(
    xp: Namespace, input: Array, average: Array, squares: Array, axis: Any
) -> Array:
    """Equal elements have no variance, though their mean be rounded: shifted to 0, they show it."""
    doubtful = squares <= _limit(average, input.size)
    if not some(doubtful):
        return squares
    first = tuple(slice(1) if axis is None or i in axis else slice(None) for i in range(input.ndim))
    moved = xp.asarray(input - input[first])
    centre = _average(xp, moved, axis, input.size // squares.size)
    return xp.where(doubtful, _squared_deviations(xp, moved, centre, axis), squares)


def _squared_deviations(xp: Namespace, input: Array, average: Array, axis: Any) -> Array:
    """The sum of squared deviations; the rows of large arrays in blocks that stay in cache."""
    trailing = axis is not None and min(axis) == input.ndim - len(axis)
    if input.dtype.char == "f" and (axis is None or trailing) and input.flags.c_contiguous:
        rows = input.reshape(average.size, -1) if average.size else input.reshape(0, 0)
        if rows.shape[1] > _LONG:
            return _long_squares(xp, rows, average.reshape(-1, 1)).reshape(average.shape)
    if input.size <= BLOCK or not trailing or not input.flags.c_contiguous:
        return total_of_squares(xp, xp.asarray(input - average), axis, keepdim=True)
    rows = input.reshape(math.prod(input.shape[: min(axis)]), -1)
    centres = average.reshape(-1, 1)
    result = xp.empty(len(rows), input.real.dtype)
    for block in slices(*rows.shape):
        result[block] = total_of_squares(xp, rows[block] - centres[block], (1,), keepdim=False)
    return result.reshape(kept_shape(input.shape, axis))


# So many float32 squares are added up in single precision; such sums are then added in double.
_LONG = 2**16


def _long_squares(xp: Namespace, rows: Array, centres: Array) -> Array:
    """Sums of squared deviations of long rows of float32, without the error of a long sum."""
    result = xp.zeros(len(rows), xp.float64)
    for start in range(0, rows.shape[1], _LONG):
        part = rows[:, start : start + _LONG] - centres
        result += total_of_squares(xp, part, (1,), keepdim=False)
    return result.astype(rows.dtype)


# Rules --------------------------------------------------------------------------------------------


def _scale(shape: Any, dim: Any, correction: float) -> float:
    freedom = reduced_count(shape, dim) - correction
    return 2 / freedom if freedom else math.inf


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


def _if_felt(
    g: Any, input: Any, dim: Any, correction: float, keepdim: Any, adjoint: Any, *out: Any
) -> Any:
    """The gradient by way of the spread; without a degree of freedom, only where `g` is not 0.

    The mean alone may be asked for, and what is infinite times 0 would spoil it.
    """
    made = adjoint(g, input, *out, dim, correction, keepdim)
    if reduced_count(input.shape, dim) - correction > 0:
        return made
    return keep_where(made, restored(g, input.shape, dim, keepdim) != 0)


# Operators ----------------------------------------------------------------------------------------

_BY_DIM = "correction(input dim * correction keepdim)"
_SPREAD: dict[str, Any] = {"method": False, "aten_defaults": {"dim": None}, "meta": "lengths kept"}
_ALONE: dict[str, Any] = {**_SPREAD, "casts_out": True}
_WITH_MEAN: dict[str, Any] = {**_SPREAD, "outputs": "spread average"}


@primitive(**_ALONE, input=_var_adjoint, jvp=_var_tangent, name="var", aten=f"var.{_BY_DIM}")
def _var(
    xp: Namespace, input: Array, dim: Dims = None, correction: float = 1, keepdim: bool = False
) -> Array:
    return _moments(xp, "var", input, dim, correction, keepdim)[0]


@primitive(**_ALONE, input=_std_adjoint, jvp=_std_tangent, name="std", aten=f"std.{_BY_DIM}")
def _std(
    xp: Namespace, input: Array, dim: Dims = None, correction: float = 1, keepdim: bool = False
) -> Array:
    return _moments(xp, "std", input, dim, correction, keepdim)[0]


@primitive(
    input=lambda g_spread, g_average, input, dim, correction, keepdim: (
        _if_felt(g_spread, input, dim, correction, keepdim, _var_adjoint)
        + spread_mean(g_average, input.shape, dim, keepdim)
    ),
    jvp=lambda d_input, input, dim, correction, keepdim: (
        _var_tangent(d_input, input, dim, correction, keepdim),
        mean(d_input, dim, keepdim),
    ),
    **_WITH_MEAN,
    name="var_mean",
    aten=f"var_mean.{_BY_DIM}",
)
def _var_mean(
    xp: Namespace, input: Array, dim: Dims = None, correction: float = 1, keepdim: bool = False
) -> Any:
    return _moments(xp, "var_mean", input, dim, correction, keepdim)


@primitive(
    input=lambda g_spread, g_average, input, spread, dim, correction, keepdim: (
        _if_felt(g_spread, input, dim, correction, keepdim, _std_adjoint, spread)
        + spread_mean(g_average, input.shape, dim, keepdim)
    ),
    jvp=lambda d_input, input, spread, dim, correction, keepdim: (
        _std_tangent(d_input, input, spread, dim, correction, keepdim),
        mean(d_input, dim, keepdim),
    ),
    **_WITH_MEAN,
    name="std_mean",
    aten=f"std_mean.{_BY_DIM}",
)
def _std_mean(
    xp: Namespace, input: Array, dim: Dims = None, correction: float = 1, keepdim: bool = False
) -> Any:
    return _moments(xp, "std_mean", input, dim, correction, keepdim)


# Kernels ------------------------------------------------------------------------------------------

_of_few = host & floating & not_empty & at_most(MANY) & has_dims
_halves = host & says("@_dtype.itemsize == 2", "@_dtype.kind in 'fV'")
_short = host & given(keepdim=False) & says("@_dtype is F32", F32=F32) & not_empty
_all = says("(dim is None or @_ndim == 1)") & at_most(SHORT)
_rows = matrix & at_most(FEW) & given(dim=(1,)) & at_most(SHORT, "@_shape[1]")


def _enter(op: str, function: Any, with_mean: Any) -> None:
    """The kernels of a variance, or of a standard deviation."""

    @kernel(function, when=_short & _all & says("correction < input_size"))
    def short_in_double(xp: Namespace, input: Array, correction: float, input_size: int) -> Array:
        return _few_spreads(xp, op, input, True, input_size, input_size - correction)

    @kernel(function, when=_short & _rows & says("correction < input_shape[1]"))
    def short_rows_in_double(
        xp: Namespace, input: Array, correction: float, input_shape: Any
    ) -> Array:
        width = input_shape[1]
        return _few_spreads(xp, op, input, False, width, width - correction)

    @kernel(function, when=_of_few, declines=True)
    def few_in_double(
        xp: Namespace, input: Array, dim: Any, correction: float, keepdim: bool, input_dtype: Any
    ) -> Array | None:
        few = _few_moments(xp, input, None if dim == () else dim, correction, keepdim)
        if few is None:
            return None
        return (xp.sqrt(few[0]) if op == "std" else few[0]).astype(input_dtype)

    @kernel(function, when=_halves)
    def halves_in_single(
        xp: Namespace, input: Array, dim: Any, correction: float, keepdim: bool
    ) -> Array:
        forward: Any = function.op.forward
        return forward(xp, input.astype(xp.float32), dim, correction, keepdim).astype(input.dtype)

    @kernel(with_mean, when=_of_few, declines=True)
    def few_with_mean(
        xp: Namespace, input: Array, dim: Any, correction: float, keepdim: bool, input_dtype: Any
    ) -> Any:
        few = _few_moments(xp, input, axis_of(dim, input.ndim), correction, keepdim)
        if few is None:
            return None
        spread = (xp.sqrt(few[0]) if op == "std" else few[0]).astype(input_dtype)
        return spread, few[1].astype(input_dtype).reshape(spread.shape)


_enter("var", _var, _var_mean)
_enter("std", _std, _std_mean)


def _called(
    op: str,
    function: Any,
    input: Any,
    dim: Any,
    unbiased: Any,
    keepdim: Any,
    correction: Any,
    out: Any,
    axis: Any = None,
    keepdims: Any = None,
) -> Any:
    """Call `function`, given `(unbiased)`, `(dim, unbiased)` or `(dim, correction=)`."""
    dim, keepdim = numpy_names(dim, keepdim, axis, keepdims)
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError(f"{op}(): give `unbiased` or `correction`, not both.")
    if unbiased is not None and not isinstance(unbiased, bool):
        raise TypeError(
            f"{op}(): argument `unbiased` must be bool, got {unbiased!r}; several dims are given "
            "as one tuple, like dim=(0, 1)."
        )
    check_keepdim(op, keepdim)
    if correction is None:
        correction = 0 if unbiased is False else 1
    result = function(input, dim, correction, keepdim, out=out)
    if isinstance(input, Tensor):
        _warn_without_freedom(op, input, dim, correction)
    return result


def _warn_without_freedom(op: str, input: Tensor, dim: Any, correction: float) -> None:
    shape = input._array.shape
    if correction <= 0 or (dim is None and input._array.size > correction):
        return  # the usual cases
    dims = None if dim is None else as_dims(dim, len(shape), op)
    if reduced_count(shape, dims) <= correction:
        warn_of_freedom(op, correction)


def warn_of_freedom(op: str, correction: float) -> None:
    """Say that a spread is taken of too few elements."""
    warnings.warn(
        f"{op}(): degrees of freedom is <= 0, as there are not more elements than are corrected "
        f"for ({correction}); use correction=0 if the elements are all that there are.",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )


def _of_spread(op: str, function: Any) -> Any:
    @numpy_named
    def spread(
        input: Any = REQUIRED,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        x: Any = None,
        a: Any = None,
        x1: Any = None,
        *,
        correction: float | None = None,
        out: Any = None,
        axis: Any = None,
        keepdims: Any = None,
    ) -> Any:
        if x is not None or a is not None or x1 is not None:
            input = operand(op, "input", input, x=x, a=a, x1=x1)
        usual = unbiased is None and keepdim is False and correction is None and out is None
        usual = usual and axis is None and keepdims is None and input.__class__ is Tensor
        if usual and (dim is None or dim.__class__ is int):
            result = function(input, dim)
            if result._array.size == input._array.size:  # of one element each
                _warn_without_freedom(op, input, dim, 1)
            return result
        return _called(op, function, input, dim, unbiased, keepdim, correction, out, axis, keepdims)

    return spread


var = named(
    "var",
    _of_spread("var", _var),
    """The variance: the mean squared deviation, with `correction` (1) taken off the count.

    >>> import pullback as torch
    >>> torch.var(torch.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """,
)
std = named(
    "std",
    _of_spread("std", _std),
    """The standard deviation: the square root of `var`; its gradient is 0 where it is 0.

    >>> import pullback as torch
    >>> torch.std(torch.tensor([1.0, 3.0]))
    tensor(1.4142)
    """,
)
for _function in (var, std):
    method(quick(_function))


def _with_mean(op: str, function: Any) -> Any:
    def both(
        input: Any,
        dim: Any = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
        out: Any = None,
        axis: Any = None,
        keepdims: Any = None,
    ) -> tuple[Tensor, Tensor]:
        made: tuple[Tensor, Tensor] = _called(
            op, function, input, dim, unbiased, keepdim, correction, out, axis, keepdims
        )
        return made

    return both


var_mean = named(
    "var_mean",
    _with_mean("var_mean", _var_mean),
    """Variance and mean.

    >>> import pullback as torch
    >>> torch.var_mean(torch.tensor([1.0, 3.0]))
    (tensor(2.), tensor(2.))
    """,
)
std_mean = named(
    "std_mean",
    _with_mean("std_mean", _std_mean),
    """Standard deviation and mean.

    >>> import pullback as torch
    >>> torch.std_mean(torch.tensor([1.0, 3.0]))
    (tensor(1.4142), tensor(2.))
    """,
)


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
        if count <= correction:
            warn_of_freedom("cov", correction)
        centred = rows - mean(rows, 1, keepdim=True)
        products = matmul(centred, transpose(conj(centred), 0, 1))
        return squeeze(products / max(count - correction, 0))
    whole = sum(weights)
    centred = rows - sum(rows * weights, 1, keepdim=True) / whole
    products = matmul(centred * weights, transpose(conj(centred), 0, 1))
    lost = correction if aweights is None else correction * sum(weights * aweights) / whole
    return squeeze(products / clamp_min(whole - lost, 0))


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
    """Correlation coefficients of variables (rows) over observations (columns).

    >>> import pullback as torch
    >>> torch.corrcoef(torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    products = cov(input)
    if not products.ndim:
        return products / products
    spread = sqrt(real(diagonal(products, 0, 0, 1)))
    scaled = products / unsqueeze(spread, 1) / unsqueeze(spread, 0)
    if not is_complex(scaled):
        return clamp(scaled, -1, 1)
    return complex_of(clamp(real(scaled), -1, 1), clamp(imag(scaled), -1, 1))
