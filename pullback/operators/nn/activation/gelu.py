"""gelu, its own file for the numbers that single precision is fitted with."""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.arrays import F32, F64, number_array
from pullback.core.errors import unsupported
from pullback.operators.arrays.blocks import ONES
from pullback.operators.arrays.blocks import elementwise as in_blocks
from pullback.operators.arrays.erf import FEW, erf_double, polynomial
from pullback.operators.arrays.scipy_special import scipy_special
from pullback.operators.batching import together
from pullback.operators.declare import Array, Namespace, elementwise
from pullback.operators.pointwise.exponentials import exp
from pullback.operators.pointwise.trigonometry import tanh

_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_SCALE = math.sqrt(2 / math.pi)  # of the tanh approximation
_CUBIC = 0.044715

# float32: 2 p - 1 = tanh(x q(x * x)), for the chance p that a normal variable is below x, as tanh
# takes no longer than five passes of arithmetic. Fitted where |x| < 5.5; beyond, the last
# coefficient alone takes it to 0 or 1. Error of p 3e-8, of gelu 6e-7 at most with the rounding of
# the steps, which is half of torch's.
_Q = (
    *(0.7978849414594565, 0.036333084577889016, -3.259497962526606e-05, -5.5306192039520444e-05),
    *(3.964744104636129e-06, -1.3226331344000116e-07, 1.756169966175993e-09),
)
_Q32 = tuple(number_array(value, F32) for value in _Q)


@elementwise(
    casts_out=False,
    input=lambda g, input, approximate: _gelu_adjoint(g, input, approximate),
    space="nn.functional",
)
def gelu(xp: Namespace, input: Array, *, approximate: str = "none") -> Array:
    """`x` times the probability that a normal variable is below `x`; or a tanh close to that.

    >>> import pullback as torch
    >>> torch.nn.functional.gelu(torch.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """
    if input.dtype.kind not in "fV":
        raise unsupported("gelu", input)
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}.")
    kernel = _exact if approximate == "none" else _by_tanh
    return in_blocks(xp, kernel, input, formula="nn.functional.gelu", options=(approximate,))


def _curvature(input: Any, approximate: str) -> Any:
    square = input * input
    if approximate == "none":
        return exp(square * -0.5) * (2 - square) * _DENSITY
    inside = (input + input * square * _CUBIC) * _SCALE
    t: Any = tanh(inside)
    first = (square * (3 * _CUBIC) + 1) * _SCALE
    second = input * (6 * _CUBIC * _SCALE)
    return (1 - t * t) * (first + input * (second * 0.5 - t * first * first))


@elementwise(
    batch=together,
    gradient=lambda g, input, approximate: _gelu_adjoint(g, input, approximate),
    input=lambda g, gradient, input, approximate: g * gradient * _curvature(input, approximate),
    node="GeluBackwardBackward0",
    has_out=False,
)
def _gelu_adjoint(xp: Namespace, gradient: Array, input: Array, approximate: str) -> Array:
    slope = _exact_slope if approximate == "none" else _tanh_slope
    arrays = gradient, input
    return in_blocks(xp, slope, *arrays, formula="_gelu_adjoint", options=(approximate,))


# Exact --------------------------------------------------------------------------------------------


def _exact(xp: Namespace, out: Array, x: Array) -> None:
    _below(xp, out, x)
    xp.multiply(out, x, out)


def _below(xp: Namespace, out: Array, x: Array) -> None:
    """The probability that a normal variable is below `x`."""
    double = x.dtype == F64
    if (double or x.size < FEW) and (scipy := scipy_special(xp)):
        scipy.ndtr(x, out)
    elif double:
        erf_double(xp, out, x * _ROOT_HALF)
        out += 1
        out *= 0.5
    else:
        _fitted(xp, out, x, x * x)
        out *= 0.5


def _fitted(xp: Namespace, out: Array, x: Array, square: Array) -> None:
    """Twice that probability, of float32."""
    polynomial(xp, _Q32 if xp is numpy else _Q, square, out)
    xp.multiply(out, x, out)
    xp.tanh(out, out)
    xp.add(out, ONES.get(x.dtype, 1), out)


def _exact_slope(xp: Namespace, out: Array, g: Array, x: Array) -> None:
    density = x * x
    half = x.dtype != F64 and x.size >= FEW
    if half:
        _fitted(xp, out, x, density)
    else:
        _below(xp, out, x)
    density *= -0.5
    xp.exp(density, density)
    density *= x
    density *= 2 * _DENSITY if half else _DENSITY
    out += density
    xp.multiply(out, g, out)
    if half:
        out *= 0.5


# By tanh ------------------------------------------------------------------------------------------


def _by_tanh(xp: Namespace, out: Array, x: Array) -> None:
    _tanh_inside(xp, out, x)
    xp.add(out, ONES.get(x.dtype, 1), out)
    xp.multiply(out, x, out)
    out *= 0.5


def _tanh_inside(xp: Namespace, out: Array, x: Array) -> None:
    xp.multiply(x, x, out)
    out *= _SCALE * _CUBIC
    out += _SCALE
    xp.multiply(out, x, out)
    xp.tanh(out, out)


def _tanh_slope(xp: Namespace, out: Array, g: Array, x: Array) -> None:
    _tanh_inside(xp, out, x)
    inner = x * x
    inner *= 3 * _CUBIC * _SCALE
    inner += _SCALE
    inner *= x
    inner *= 1 - out  # times (1 + t) below: together the slope of tanh
    inner += 1
    out += 1
    out *= inner
    out *= g
    out *= 0.5
