"""Softmax and its logarithm, along one dimension."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.dtype import as_dtype, from_numpy_dtype
from pullback.operators.arrays.rows import (
    along_rows,
    column,
    row_sums,
    spread,
    square_for,
)
from pullback.operators.arrays.sums import sums, totals
from pullback.operators.batching import shifted
from pullback.operators.declare import Array, Dim, Namespace, primitive
from pullback.operators.linalg.products import total
from pullback.operators.pointwise.arithmetic import neg
from pullback.operators.pointwise.exponentials import exp
from pullback.operators.reduce.sums import sum
from pullback.operators.tensor.convert import astype

FOUND_IN = {
    "special": "log_softmax softmax",
}


def prepared(op: str, input: Array, dtype: Any) -> Array:
    """`input` in the dtype asked for; refused if that is not a floating-point one."""
    if dtype is not None:
        wanted = as_dtype(dtype).numpy
        if input.dtype.kind == "c" and wanted.kind != "c":
            input = input.real
        input = input.astype(wanted, copy=False)
    if input.dtype.kind not in "fV":
        raise NotImplementedError(
            f"{op}: not defined for {from_numpy_dtype(input.dtype)}; convert first, or pass dtype."
        )
    return input


# Exponentials of numbers within this need no shift to stay clear of overflow and underflow, also in
# the sum of any row that fits memory. Two whole extremes take a fifth of the time of those by row.
_SAFE = 40.0
SAFE_SQUARES = _SAFE * _SAFE
# What is hidden is -inf. Without a shift a row still has all its digits where its sum is not small:
# what then becomes 0 would be below 1e-34 of it. Attention over 32 x 32 x 32 scores, causal: 121 us
# and not 180.
_ENOUGH = math.exp(-10)


def are_safe(xp: Namespace, x: Array) -> bool:
    """Whether exponentials of all elements can be taken as they are."""
    high, low = xp.maximum.reduce(x, None), xp.minimum.reduce(x, None)
    return bool(low > -_SAFE and high < _SAFE)


def exponentials_of(xp: Namespace, x: Array, out: Array) -> None:
    """Exponentials of a block, up to a factor for each row."""
    # The ufuncs themselves: the methods would take half a microsecond more, each.
    if not x.size:
        return
    if xp.maximum.reduce(x, None) < _SAFE:
        xp.exp(x, out=out)
        if xp.minimum.reduce(x, None) > -_SAFE:
            return
        if x.ndim == 2 and xp.minimum.reduce(totals(xp, out)) > _ENOUGH:
            return
    xp.subtract(x, x.max(1, keepdims=True), out=out)
    xp.exp(out, out=out)


# softmax ------------------------------------------------------------------------------------------


@primitive(
    input=lambda g, out, dim: _softmax_adjoint(g, out, dim),
    jvp=lambda d_input, out, dim: _softmax_adjoint(astype(d_input, out.dtype), out, dim),
    meta="lengths kept",
    usual="softmax_of(numpy, a0, $dim) if $dtype is None and ndarray is host_array "
    "and a0.dtype.kind == 'f' else forward(numpy, a0, $dim, $dtype)",
)
def softmax(xp: Namespace, input: Array, dim: Dim, dtype: Any = None) -> Array:
    """Exponentials of the elements, scaled so that their sums along `dim` are 1.

    >>> import pullback as torch
    >>> torch.softmax(torch.zeros(2), dim=0)
    tensor([0.5000, 0.5000])
    """
    if dtype is not None or input.dtype.kind != "f":
        input = prepared("softmax", input, dtype)
    return softmax_of(xp, input, dim)


def softmax_of(xp: Namespace, x: Array, dim: int) -> Array:
    """The same on arrays of a floating-point dtype."""
    square = square_for(xp, x, dim)
    if square is None:
        return along_rows(xp, _softmax_rows, dim, x, formula="softmax")
    flat = x.ravel()
    if flat.dot(flat) < SAFE_SQUARES:  # then each of them is within it
        out = xp.exp(x)
    else:
        out = x - xp.maximum.reduce(x, dim, None, None, True)
        xp.exp(out, out)
    return xp.divide(out, spread(xp, square, out, dim), out)


def _softmax_rows(xp: Namespace, out: Array, x: Array) -> None:
    exponentials_of(xp, x, out)
    if out.ndim == 2:
        out *= column(xp.reciprocal(totals(xp, out)), out.shape)
    else:
        out *= 1 / row_sums(xp, out)


def _adjoint_tangent(d_gradient: Any, d_output: Any, gradient: Any, output: Any, dim: int) -> Any:
    terms = []
    if d_gradient is not None:
        terms.append(_softmax_adjoint(d_gradient, output, dim))
    if d_output is not None:
        mean = sum(gradient * output, dim, keepdim=True)
        moved = sum(gradient * d_output, dim, keepdim=True)
        terms.append(d_output * (gradient - mean) - output * moved)
    return total(*terms)


# The derivative of softmax is symmetric, so this is its tangent too.
@primitive(
    batch=shifted(("dim",)),
    gradient=lambda g, output, dim: _softmax_adjoint(g, output, dim),
    output=lambda g, gradient, output, dim: (
        g * (gradient - sum(gradient * output, dim, keepdim=True))
        - gradient * sum(g * output, dim, keepdim=True)
    ),
    jvp=_adjoint_tangent,
    node="SoftmaxBackwardDataBackward0",
    has_out=False,
    meta="lengths kept",
)
def _softmax_adjoint(xp: Namespace, gradient: Array, output: Array, dim: int) -> Array:
    """`output * (gradient - sum(gradient * output))`."""
    square = square_for(xp, output, dim)
    if square is not None:
        out = gradient * output
        xp.subtract(gradient, spread(xp, square, out, dim), out)
        out *= output
        return out
    arrays = gradient, output
    return along_rows(xp, _softmax_adjoint_rows, dim, *arrays, formula="_softmax_adjoint")


def _softmax_adjoint_rows(xp: Namespace, out: Array, g: Array, y: Array) -> None:
    # Written to all places first: twice as quick as a subtraction that broadcasts.
    out[...] = totals(xp, g, y)[:, None] if g.ndim == 2 else sums(xp, g * y, (1,), keepdim=True)
    xp.subtract(g, out, out)
    out *= y


def softmin(input: Any, dim: int, dtype: Any = None) -> Any:
    """The softmax of the negative elements."""
    return softmax(neg(input), dim, dtype)


# log_softmax --------------------------------------------------------------------------------------


def _log_softmax_tangent(d_input: Any, out: Any, dim: int) -> Any:
    d_input = astype(d_input, out.dtype)
    return d_input - sum(d_input * exp(out), dim, keepdim=True)


@primitive(
    input=lambda g, out, dim: _log_softmax_adjoint(g, out, dim),
    jvp=_log_softmax_tangent,
    meta="lengths kept",
)
def log_softmax(xp: Namespace, input: Array, dim: Dim, dtype: Any = None) -> Array:
    """The logarithm of `softmax`, without its rounding to 0.

    >>> import pullback as torch
    >>> torch.log_softmax(torch.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    square = square_for(xp, input, dim) if dtype is None else None
    if square is not None:
        flat = input.ravel()
        if flat.dot(flat) < SAFE_SQUARES:
            # No digits are lost: what rounds here is a share of 1, as the sum is below.
            out = xp.exp(input)
            xp.divide(out, spread(xp, square, out, dim), out)
            return xp.log(out, out)
        out = input - xp.maximum.reduce(input, dim, None, None, True)
        sums = spread(xp, square, xp.exp(out), dim)
        out -= xp.log(sums, sums)
        return out
    input = prepared("log_softmax", input, dtype)
    return along_rows(xp, _log_softmax_rows, dim, input, formula="log_softmax")


def _log_softmax_rows(xp: Namespace, out: Array, x: Array) -> None:
    # With the largest element at 0 no digits are lost where the probability is close to 1.
    xp.subtract(x, x.max(1, keepdims=True), out=out)
    out -= xp.log(row_sums(xp, xp.exp(out)))


def _log_adjoint_tangent(
    d_gradient: Any, d_output: Any, gradient: Any, output: Any, dim: int
) -> Any:
    terms = []
    if d_gradient is not None:
        terms.append(_log_softmax_adjoint(d_gradient, output, dim))
    if d_output is not None:
        terms.append(-d_output * exp(output) * sum(gradient, dim, keepdim=True))
    return total(*terms)


@primitive(
    batch=shifted(("dim",)),
    gradient=lambda g, output, dim: g - sum(g * exp(output), dim, keepdim=True),
    output=lambda g, gradient, output, dim: -g * exp(output) * sum(gradient, dim, keepdim=True),
    jvp=_log_adjoint_tangent,
    node="LogSoftmaxBackwardDataBackward0",
    has_out=False,
    meta="lengths kept",
)
def _log_softmax_adjoint(xp: Namespace, gradient: Array, output: Array, dim: int) -> Array:
    """`gradient - exp(output) * sum(gradient)`."""
    square = square_for(xp, gradient, dim)
    if square is not None:
        out = xp.exp(output)
        out *= spread(xp, square, gradient, dim)
        return xp.subtract(gradient, out, out)
    arrays = gradient, output
    return along_rows(xp, _log_softmax_adjoint_rows, dim, *arrays, formula="_log_softmax_adjoint")


def _log_softmax_adjoint_rows(xp: Namespace, out: Array, g: Array, y: Array) -> None:
    xp.exp(y, out=out)
    out *= row_sums(xp, g)
    xp.subtract(g, out, out=out)


# Other rooms use it too: a leading underscore keeps an operator in its room.
softmax_adjoint = _softmax_adjoint
