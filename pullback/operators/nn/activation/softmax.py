"""Softmax and its logarithm, along one dimension."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.dtype import as_dtype, from_numpy_dtype
from pullback.operators.arrays import programs
from pullback.operators.arrays.native import MANY, by_machine_code
from pullback.operators.arrays.rows import FEW, SHORT, SUMS, along_rows, column, row_sums, spread
from pullback.operators.arrays.sums import sums, totals
from pullback.operators.batching import shifted
from pullback.operators.conditions import (
    at_least,
    at_most,
    contiguous,
    floating,
    given,
    has_dims,
    host,
    not_empty,
    says,
)
from pullback.operators.declare import Array, Dim, Namespace, kernel, primitive
from pullback.operators.linalg.products import total
from pullback.operators.pointwise.arithmetic import neg
from pullback.operators.pointwise.exponentials import exp
from pullback.operators.reduce.sums import sum
from pullback.operators.tensor.convert import astype

FOUND_IN = {"special": "log_softmax softmax"}


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
)
def softmax(xp: Namespace, input: Array, dim: Dim, dtype: Any = None) -> Array:
    """Exponentials of the elements, normalised to sum to 1 along `dim`.

    >>> import pullback as torch
    >>> torch.softmax(torch.zeros(2), dim=0)
    tensor([0.5000, 0.5000])
    """
    return exponentials_along(xp, prepared("softmax", input, dtype), dim)


def exponentials_along(xp: Namespace, x: Array, dim: int) -> Array:
    """The same of a floating-point dtype."""
    return along_rows(xp, _softmax_rows, dim, x)


def _by_machine_code(formula: programs.Program, dim: int, *arrays: Array) -> Array | None:
    made = by_machine_code(formula, arrays, dim)
    return None if made is None else made[0]


# Rows so short that one product with a matrix of ones adds them up, see arrays/rows.py.
_few = host & not_empty & at_most(FEW) & has_dims & floating & contiguous
_few &= at_most(SHORT, "@_shape[dim]")
_own_dtype = given(dtype=None)
_long = at_least(MANY) & says("(dim == @_ndim - 1 or dim == -1)") & floating
_halves = host & at_least(MANY) & says("@_dtype.itemsize == 2", "@_dtype.kind in 'fV'")


@kernel(softmax, when=_own_dtype & _few, inline=True)
def _few_rows(xp: Namespace, input: Array, dim: int) -> Array:
    return _few_exponentials(xp, input, dim)


@kernel(softmax, when=_own_dtype & _long, machine_code=True)
def _long_rows(input: Array, dim: int) -> Array | None:
    return _by_machine_code(programs.SOFTMAX, dim, input)


@kernel(softmax, when=_own_dtype & _halves)
def _in_single(xp: Namespace, input: Array, dim: int) -> Array:
    return softmax_of(xp, input.astype(xp.float32), dim).astype(input.dtype)


# For who computes with arrays of a floating-point dtype.
softmax_of: Any = softmax.op.forward  # type: ignore[attr-defined]  # declared


def _few_exponentials(xp: Namespace, x: Array, dim: int) -> Array:
    flat = x.ravel()
    if flat.dot(flat) < SAFE_SQUARES:  # then each of them is within it
        out = xp.exp(x)
    else:
        out = x - xp.maximum.reduce(x, dim, None, None, True)
        xp.exp(out, out)
    return xp.divide(out, spread(xp, SUMS[x.shape[dim], x.dtype.char], out, dim), out)


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
    return along_rows(xp, _softmax_adjoint_rows, dim, gradient, output)


@kernel(_softmax_adjoint, when=_few.of("output"))
def _few_gradients(
    xp: Namespace, gradient: Array, output: Array, dim: int, output_shape: Any, output_dtype: Any
) -> Array:
    out = gradient * output
    square = SUMS[output_shape[dim], output_dtype.char]
    xp.subtract(gradient, spread(xp, square, out, dim), out)
    out *= output
    return out


@kernel(_softmax_adjoint, when=_long, machine_code=True)
def _long_gradients(gradient: Array, output: Array, dim: int) -> Array | None:
    return _by_machine_code(programs.SOFTMAX_ADJOINT, dim, gradient, output)


@kernel(_softmax_adjoint, when=_halves)
def _half_gradients(xp: Namespace, gradient: Array, output: Array, dim: int) -> Array:
    single = gradient.astype(xp.float32), output.astype(xp.float32)
    return _softmax_adjoint.op.forward(xp, *single, dim).astype(gradient.dtype)  # type: ignore[attr-defined]  # declared


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
    return along_rows(xp, _log_softmax_rows, dim, prepared("log_softmax", input, dtype))


@kernel(log_softmax, when=_own_dtype & _few)
def _few_logarithms(
    xp: Namespace, input: Array, dim: int, input_shape: Any, input_dtype: Any
) -> Array:
    square = SUMS[input_shape[dim], input_dtype.char]
    flat = input.ravel()
    if flat.dot(flat) < SAFE_SQUARES:
        # No digits are lost: what rounds here is a share of 1, as the sum is below.
        out = xp.exp(input)
        xp.divide(out, spread(xp, square, out, dim), out)
        return xp.log(out, out)
    out = input - xp.maximum.reduce(input, dim, None, None, True)
    whole = spread(xp, square, xp.exp(out), dim)
    out -= xp.log(whole, whole)
    return out


@kernel(log_softmax, when=_own_dtype & _long, machine_code=True)
def _long_logarithms(input: Array, dim: int) -> Array | None:
    return _by_machine_code(programs.LOG_SOFTMAX, dim, input)


@kernel(log_softmax, when=_own_dtype & _halves)
def _half_logarithms(xp: Namespace, input: Array, dim: int) -> Array:
    forward: Any = log_softmax.op.forward  # type: ignore[attr-defined]  # declared
    return forward(xp, input.astype(xp.float32), dim).astype(input.dtype)


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
    return along_rows(xp, _log_softmax_adjoint_rows, dim, gradient, output)


@kernel(_log_softmax_adjoint, when=_few)
def _few_log_gradients(
    xp: Namespace,
    gradient: Array,
    output: Array,
    dim: int,
    gradient_shape: Any,
    gradient_dtype: Any,
) -> Array:
    out = xp.exp(output)
    out *= spread(xp, SUMS[gradient_shape[dim], gradient_dtype.char], gradient, dim)
    return xp.subtract(gradient, out, out)


@kernel(_log_softmax_adjoint, when=_long, machine_code=True)
def _long_log_gradients(gradient: Array, output: Array, dim: int) -> Array | None:
    return _by_machine_code(programs.LOG_SOFTMAX_ADJOINT, dim, gradient, output)


@kernel(_log_softmax_adjoint, when=_halves)
def _half_log_gradients(xp: Namespace, gradient: Array, output: Array, dim: int) -> Array:
    single = gradient.astype(xp.float32), output.astype(xp.float32)
    return _log_softmax_adjoint.op.forward(xp, *single, dim).astype(gradient.dtype)  # type: ignore[attr-defined]  # declared


def _log_softmax_adjoint_rows(xp: Namespace, out: Array, g: Array, y: Array) -> None:
    xp.exp(y, out=out)
    out *= row_sums(xp, g)
    xp.subtract(g, out, out=out)


# Other rooms use it too: a leading underscore keeps an operator in its room.
softmax_adjoint = _softmax_adjoint
