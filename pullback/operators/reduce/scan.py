"""Running sums, products and extremes along a dimension, and the recurrence behind their gradients.

    s[i] = b[i] + a[i] * s[i - 1]

The gradients of `cumprod`, `prod` and `logcumsumexp` are such recurrences: no division, so zeros
among the factors need no cases of their own; and the recurrence is its own adjoint read backwards,
so that every order of derivative is right.
"""

from __future__ import annotations

import math
from math import inf
from typing import Any

import numpy

from pullback.core.addresses import finds_indices
from pullback.core.arrays import F32, F64, some
from pullback.core.dtype import numpy_dtype
from pullback.core.errors import unsupported
from pullback.core.tensor import Tensor
from pullback.operators.arrays.reductions import is_moderate
from pullback.operators.arrays.row_major import in_order
from pullback.operators.batching import together
from pullback.operators.conditions import at_least, below, given, has_dims, host, says
from pullback.operators.declare import (
    REQUIRED,
    Array,
    Dim,
    Namespace,
    kernel,
    linear,
    method,
    primitive,
)
from pullback.operators.indexing.picking import add_back, pick
from pullback.operators.pointwise.arithmetic import conj, is_complex, keep_where
from pullback.operators.pointwise.exponentials import complex_logaddexp, exp
from pullback.operators.results import result_class
from pullback.operators.shape.tiling import flip
from pullback.operators.tensor.convert import astype

FOUND_IN = {"torch": "cummax cummin"}

# Running totals are kept in a wider dtype, as torch does on the CPU.
_WIDER = {"e": "f4", "f": "f8", "F": "c16"}
# So many elements are worth a look at how they lie.
_MANY = 32768


def _accumulated(xp: Namespace, ufunc: Any, input: Array, dim: int, dtype: Any) -> Array:
    """`ufunc` accumulated along `dim`; without a dtype, integers and bools count in int64."""
    if dtype is not None:
        result_dtype = numpy_dtype(dtype)
        if input.dtype.kind == "c" and result_dtype.kind != "c":
            input = input.real
        input = input.astype(result_dtype, copy=False)
    else:
        result_dtype = xp.dtype(xp.int64) if input.dtype.kind in "biu" else input.dtype
    if not input.ndim:
        return input.astype(result_dtype)
    wide = xp.dtype(_WIDER.get(result_dtype.char, result_dtype))
    if result_dtype.kind == "V":
        wide = xp.dtype(xp.float32)
    result = ufunc.accumulate(input, dim, wide)
    return result.astype(result_dtype, "C", copy=False)


# From so many neighbouring lines on, going through them together, a step at a time, is faster: for
# (2000, 2000) float32 along dim 0 8 ms, where NumPy's accumulate takes 37; for (100, 100) it would
# take 0.28 ms instead of 0.05.
_LINES = 512


def _accumulated_lines(ufunc: Any, input: Array, dim: int) -> Array:
    result = numpy.empty(input.shape, input.dtype)
    before: Any = (slice(None),) * dim
    wide = _WIDER.get(input.dtype.char, input.dtype)
    running = numpy.full(input.shape[:dim] + input.shape[dim + 1 :], ufunc.identity, wide)
    for place in range(input.shape[dim]):
        ufunc(running, input[(*before, place)], out=running)
        result[(*before, place)] = running
    return result


# A running sum along a row waits for each addition. Sums within blocks of this many are one product
# with a triangle of ones: (1000, 1000) float32 in 2 ms instead of 4.8.
_TRIANGLE = 40


def _blocked_sums(xp: Namespace, input: Array, *, backwards: bool = False) -> Array | None:
    """Running sums along the last dimension; None where not all are finite.

    0 times infinity, or NaN, would be everywhere.
    """
    size = input.shape[-1]
    rows = input.reshape(-1, size)
    triangle = xp.tri(_TRIANGLE, dtype=input.dtype)
    triangle = triangle if backwards else triangle.T
    whole = size - size % _TRIANGLE
    out = xp.empty(rows.shape, input.dtype)
    rest = size - whole
    head, tail = slice(whole), slice(whole, None)
    if backwards:
        head, tail = slice(rest, None), slice(rest)
    blocks = (rows[:, head].reshape(-1, _TRIANGLE) @ triangle).reshape(len(rows), -1, _TRIANGLE)
    ends = blocks[:, ::-1, 0] if backwards else blocks[:, :, -1]
    totals = xp.add.accumulate(ends, 1, xp.float64).astype(input.dtype)
    if not xp.isfinite(totals[:, -1]).all():
        return None
    if backwards:
        blocks[:, :-1] += totals[:, -2::-1, None]
    else:
        blocks[:, 1:] += totals[:, :-1, None]
    out[:, head] = blocks.reshape(len(rows), -1)
    if rest:
        out[:, tail] = rows[:, tail] @ triangle[:rest, :rest] + totals[:, -1:]
        if not xp.isfinite(out[:, 0 if backwards else -1]).all():
            return None
    return out.reshape(input.shape)


# Sums ---------------------------------------------------------------------------------------------


@linear(
    casts_out=True, input=lambda g, dim: reverse_cumsum(g, dim), inplace=True, meta="lengths kept"
)
def cumsum(xp: Namespace, input: Array, dim: Dim, *, dtype: Any = None) -> Array:
    """Running sums along `dim`.

    >>> import pullback as torch
    >>> torch.cumsum(torch.tensor([1, 2, 3]), 0)
    tensor([1, 3, 6])
    """
    return _accumulated(xp, xp.add, input, dim, dtype)


@linear(input=lambda g, dim: cumsum(g, dim), method=False, has_out=False, aten="")
def reverse_cumsum(xp: Namespace, input: Array, dim: Dim) -> Array:
    """Running sums from the end of `dim`."""
    if not input.ndim:
        return input.copy()
    back = (slice(None),) * dim + (slice(None, None, -1),)
    made: Array = cumsum.op.forward(xp, input[back], dim)  # type: ignore[attr-defined]  # declared
    return made[back].copy()


_few = given(dtype=None) & host & has_dims & below(_MANY) & says("input_dtype is F32", F32=F32)
_blocks = host & says("input_dtype is F32", "dim == input_ndim - 1", F32=F32) & at_least(_MANY)
_blocks &= at_least(2 * _TRIANGLE, "input_shape[dim]")
_lines = given(dtype=None) & host & has_dims & says("input_dtype.kind in 'fc'", prod=math.prod)
_lines &= at_least(_LINES, "prod(input_shape[dim + 1:])")


@kernel(cumsum, when=_few)  # cast on the way: 0.3 us
def _sums_in_double(input: Array, dim: int) -> Array:
    return numpy.add.accumulate(input.astype(F64), dim).astype(F32, "C")


@kernel(cumsum, when=given(dtype=None) & _blocks, declines=True)
def _sums_by_triangles(xp: Namespace, input: Array) -> Array | None:
    return _blocked_sums(xp, input)


@kernel(reverse_cumsum, when=_blocks, declines=True)
def _reverse_by_triangles(xp: Namespace, input: Array) -> Array | None:
    return _blocked_sums(xp, input, backwards=True)


@kernel(cumsum, when=_lines)
def _sums_of_lines(input: Array, dim: int) -> Array:
    return _accumulated_lines(numpy.add, input, dim)


# The recurrence -----------------------------------------------------------------------------------


@primitive(
    input=lambda g, dim, by: shifted(g, dim, -by),
    jvp=lambda d_input, dim, by: shifted(d_input, dim, by),
    method=False,
    has_out=False,
    aten="",
)
def shifted(xp: Namespace, input: Array, dim: Dim, by: int, fill: float = 0) -> Array:
    """`input` moved by a place along `dim`, to its end (`by` 1) or start (-1); `fill` moves in."""
    out = xp.empty(input.shape, input.dtype)
    if not input.ndim:
        out[...] = fill
        return out
    before = (slice(None),) * dim
    low, high = slice(None, -1), slice(1, None)
    into, out_of, edge = (high, low, slice(None, 1)) if by > 0 else (low, high, slice(-1, None))
    out[(*before, into)] = input[(*before, out_of)]
    out[(*before, edge)] = fill
    return out


def _backwards(a: Any, g: Any, dim: int) -> Any:
    """What arrives at each place of a recurrence from all later ones, itself included."""
    a = flip(shifted(conj(a), dim, -1), (dim,))
    return flip(recurrence(a, flip(g, (dim,)), dim), (dim,))


def _recurrence_tangent(d_a: Any, d_b: Any, a: Any, out: Any, dim: int) -> Any:
    if d_a is not None:
        through = d_a * shifted(out, dim, 1)
        d_b = through if d_b is None else d_b + through
    return recurrence(a, d_b, dim)


@primitive(
    batch=together,
    a=lambda g, a, out, dim: _backwards(a, g, dim) * conj(shifted(out, dim, 1)),
    b=lambda g, a, dim: _backwards(a, g, dim),
    jvp=_recurrence_tangent,
    method=False,
    has_out=False,
    aten="",
)
def recurrence(xp: Namespace, a: Array, b: Array, dim: Dim) -> Array:
    """`s[i] = b[i] + a[i] * s[i - 1]` along `dim`, `s[-1]` being 0."""
    if not b.ndim or b.shape[dim] < 2:
        return b.copy()
    dtype = xp.result_type(a, b)
    wide = _WIDER.get(dtype.char, dtype)
    first = (slice(None),) * dim + (slice(None, 1),)
    a = a.astype(wide)
    a[first] = 1  # meets no predecessor, whatever it is
    products = xp.multiply.accumulate(a, dim)
    size = xp.abs(products)
    if size.size and not some((size <= _LEAST) | (size >= _GREATEST)):
        # s[i] = p[i] * sum of b[k] / p[k] over k <= i, p the running products: a few passes.
        result = xp.add.accumulate(b / products, dim, wide)
        result *= products
    else:
        result = _by_doubling(a, b.astype(wide), dim)
    return result if result.dtype == dtype else result.astype(dtype)


@kernel(
    recurrence,
    when=host & says("b_ndim", "b_shape[dim] > 1") & at_least(_LINES, "b_size // b_shape[dim]"),
)
def _step_by_step(xp: Namespace, a: Array, b: Array, dim: int) -> Array:
    """Many lines at once."""
    dtype = xp.result_type(a, b)
    wide = _WIDER.get(dtype.char, dtype)
    order = (dim, *(i for i in range(b.ndim) if i != dim))
    steps = xp.array(b.transpose(order), wide, order="C")
    factors = a.transpose(order)
    for place in range(1, len(steps)):
        steps[place] += factors[place] * steps[place - 1]
    made = steps.transpose(tuple(order.index(i) for i in range(b.ndim)))
    return xp.asarray(made, dtype, order="C")


# Between these, neither products nor quotients leave the range of a double.
_LEAST, _GREATEST = 1e-120, 1e120


def _by_doubling(a: Array, b: Array, dim: int) -> Array:
    """The recurrence over runs of 2, 4, 8 ... places: no division, logarithmically many passes."""
    before = (slice(None),) * dim
    step, size = 1, b.shape[dim]
    while step < size:
        late, early = (*before, slice(step, None)), (*before, slice(None, -step))
        b[late] += a[late] * b[early]
        a[late] = a[late] * a[early]
        step *= 2
    return b


# Products -----------------------------------------------------------------------------------------


def _cumprod_adjoint(g: Any, input: Any, out: Any, dim: int) -> Any:
    """The product of all factors before a place, times what all later places make of it."""
    if not input.shape:
        return g
    input = astype(input, out.dtype)
    if not isinstance(input, Tensor) and is_moderate(out):
        return reverse_cumsum(g * conj(out), dim) / conj(input)
    return conj(shifted(out, dim, 1, 1)) * _backwards(input, g, dim)


def _cumprod_tangent(d_input: Any, input: Any, out: Any, dim: int) -> Any:
    d_input, input = astype(d_input, out.dtype), astype(input, out.dtype)
    return recurrence(input, d_input * shifted(out, dim, 1, 1), dim)


@primitive(
    casts_out=True, input=_cumprod_adjoint, jvp=_cumprod_tangent, inplace=True, meta="lengths kept"
)
def cumprod(xp: Namespace, input: Array, dim: Dim, *, dtype: Any = None) -> Array:
    """Running products along `dim`.

    >>> import pullback as torch
    >>> torch.cumprod(torch.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """
    return _accumulated(xp, xp.multiply, input, dim, dtype)


@kernel(cumprod, when=_few)
def _products_in_double(input: Array, dim: int) -> Array:
    return numpy.multiply.accumulate(input.astype(F64), dim).astype(F32, "C")


@kernel(cumprod, when=_lines)
def _products_of_lines(input: Array, dim: int) -> Array:
    return _accumulated_lines(numpy.multiply, input, dim)


def exclusive_cumprod(input: Any, dim: int) -> Any:
    """Products of the elements before each place along `dim`."""
    return shifted(cumprod(input, dim), dim, 1, 1)


# Extremes -----------------------------------------------------------------------------------------


@finds_indices(1)
def _running_extreme(xp: Namespace, op: str, ufunc: Any, input: Array, dim: int) -> Any:
    """Running extreme and the last index where it stood; NaN stays once it has come."""
    if input.dtype.kind == "c":
        raise unsupported(op, input)
    if not input.ndim:
        return input.copy(), xp.zeros((), xp.int64)
    input = in_order(input)
    values = ufunc.accumulate(input, dim)
    reached = input == values
    if input.dtype.kind in "fV":
        reached |= input != input
    places = xp.arange(input.shape[dim]).reshape((-1,) + (1,) * (input.ndim - 1 - dim))
    return values, xp.maximum.accumulate(xp.where(reached, places, 0), dim)


def _extreme_adjoint(g_values: Any, indices: Any, input_shape: Any, dim: int) -> Any:
    return add_back(g_values, indices, input_shape[dim] if input_shape else 1, dim)


_RUNNING: dict[str, Any] = {
    "input": _extreme_adjoint,
    "jvp": lambda d_input, indices, dim: (pick(d_input, indices, dim), None),
    "outputs": "values indices",
    "fixed": "indices",
    "method": False,
    "meta": "lengths kept",
}


@primitive(**_RUNNING, name="cummax")
def _cummax(xp: Namespace, input: Array, dim: Dim) -> Any:
    return _running_extreme(xp, "cummax", xp.maximum, input, dim)


@primitive(**_RUNNING, name="cummin")
def _cummin(xp: Namespace, input: Array, dim: Dim) -> Any:
    return _running_extreme(xp, "cummin", xp.minimum, input, dim)


_CummaxResult = result_class("cummax", "values indices")
_CumminResult = result_class("cummin", "values indices")


@method
def cummax(input: Any, dim: int = REQUIRED, *, out: Any = None, axis: int | None = None) -> Any:
    """Running maxima along `dim` and the (last) indices where they stand.

    >>> import pullback as torch
    >>> torch.cummax(torch.tensor([1.0, 3.0, 2.0]), dim=0)
    torch.return_types.cummax(
    values=tensor([1., 3., 3.]),
    indices=tensor([0, 1, 1]))
    """
    return _CummaxResult.of(_cummax(input, dim, out=out, axis=axis))


@method
def cummin(input: Any, dim: int = REQUIRED, *, out: Any = None, axis: int | None = None) -> Any:
    """Running minima along `dim` and the (last) indices where they stand.

    >>> import pullback as torch
    >>> torch.cummin(torch.tensor([3.0, 1.0, 2.0]), dim=0)
    torch.return_types.cummin(
    values=tensor([3., 1., 1.]),
    indices=tensor([0, 1, 1]))
    """
    return _CumminResult.of(_cummin(input, dim, out=out, axis=axis))


# Sums in the logarithm ----------------------------------------------------------------------------


def _logcumsumexp_adjoint(g: Any, input: Any, out: Any, dim: int) -> Any:
    # exp(out[i] - out[i + 1]) is at most 1: nothing can overflow on the way back. Two infinities do
    # not differ.
    following = shifted(out, dim, -1, inf)
    decay = exp(flip(keep_where(out - following, out != following), (dim,)))
    later = flip(recurrence(conj(decay), flip(g, (dim,)), dim), (dim,))
    return conj(exp(input - out)) * later


def _logcumsumexp_tangent(d_input: Any, input: Any, out: Any, dim: int) -> Any:
    # What adds nothing, minus infinity, has no part; nor has what is summed up to there.
    before = shifted(out, dim, 1, -inf)
    decay = keep_where(exp(before - out), before != -inf)
    share = keep_where(exp(input - out), input != -inf)
    return recurrence(decay, d_input * share, dim)


@primitive(input=_logcumsumexp_adjoint, jvp=_logcumsumexp_tangent, meta="lengths kept")
def logcumsumexp(xp: Namespace, input: Array, dim: Dim) -> Array:
    """Logarithms of running sums of exponentials along `dim`, without overflow.

    >>> import pullback as torch
    >>> torch.logcumsumexp(torch.zeros(3), dim=0)
    tensor([0.0000, 0.6931, 1.0986])
    """
    if input.dtype.kind in "biu":
        raise unsupported("logcumsumexp", input)
    if not input.ndim:
        return input.copy()
    if is_complex(input):
        return _complex_logcumsumexp(xp, input, dim)
    wide = xp.float32 if input.dtype.itemsize == 2 else input.dtype
    return xp.logaddexp.accumulate(input, dim, wide).astype(input.dtype, "C", copy=False)


def _complex_logcumsumexp(xp: Namespace, input: Array, dim: int) -> Array:
    """By runs of 2, 4, 8 ... places, since NumPy's logaddexp knows no complex numbers.

    That may end in another branch of the logarithm than a running sum does.
    """
    out = input.copy()
    before = (slice(None),) * dim
    step, size = 1, out.shape[dim]
    while step < size:
        late, early = (*before, slice(step, None)), (*before, slice(None, -step))
        out[late] = complex_logaddexp(xp, out[late], out[early])
        step *= 2
    return _in_running_branch(xp, input, out, dim)


def _in_running_branch(xp: Namespace, input: Array, out: Array, dim: int) -> Array:
    """`out` with the imaginary parts of a sum that grows element by element.

    Each follows the sum so far or the new element, whichever has the larger real part, and differs
    from it by less than half a turn: what is known is added up along runs, then made exact.
    """
    input, out = xp.moveaxis(input, dim, -1), xp.moveaxis(out, dim, -1)
    turn = 2 * math.pi
    earlier = xp.concatenate((xp.full_like(out[..., :1], -math.inf), out[..., :-1]), -1)
    fresh = ~(earlier.real > input.real)
    followed = xp.where(fresh, input.imag, earlier.imag)
    step = xp.nan_to_num(out.imag - followed, nan=0, posinf=0, neginf=0)
    step -= turn * xp.rint(step / turn)
    angle = xp.where(fresh, input.imag + step, step)
    total = xp.add.accumulate(xp.where(fresh, 0, step).astype(xp.float64), -1)
    place = xp.maximum.accumulate(xp.where(fresh, xp.arange(out.shape[-1]), 0), -1)
    angle = xp.take_along_axis(angle, place, -1) + total - xp.take_along_axis(total, place, -1)
    off = xp.nan_to_num(xp.rint((angle - out.imag) / turn), nan=0, posinf=0, neginf=0)
    out = out.copy()
    out.imag += (turn * off).astype(out.real.dtype)
    return in_order(xp.moveaxis(out, -1, dim))
