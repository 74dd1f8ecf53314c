"""gelu, its own file for the numbers that single precision is fitted with."""

from __future__ import annotations

import math
from typing import Any

from pullback.core.arrays import F64
from pullback.core.errors import unsupported
from pullback.operators.arrays.blocks import ONES
from pullback.operators.arrays.blocks import elementwise as in_blocks
from pullback.operators.arrays.erf import FEW, erf_double, odd_ratio
from pullback.operators.arrays.scipy_special import scipy_special
from pullback.operators.batching import together
from pullback.operators.declare import Array, Namespace, elementwise
from pullback.operators.pointwise.exponentials import exp
from pullback.operators.pointwise.trigonometry import tanh

_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_SCALE = math.sqrt(2 / math.pi)  # of the tanh approximation
_CUBIC = 0.044715

# float32: (p - 1/2) / x in x * x, for the chance p that a normal variable is below x, where
# |x| < 5.5; beyond it rounds to 0 or 1. Error of p 7e-9, with the rounding of the steps 2e-7.
_LIMIT = 5.5
_ABOVE = (
    *(333144.584847338, 28269.397422019163, 3905.8438404252925, 140.9820400834599),
    *(5.304471219013779, 0.018997305608625194),
)
_BELOW = (
    *(835069.731745314, 210038.53457573167, 23921.345222716256, 1573.647494583965),
    *(61.501088608820595, 1.0),
)
# The same for the slope of gelu, which comes to 0 or 1 at the limit. Error 3e-9, rounded 3e-7.
_SLOPE_LIMIT = 5.9
_SLOPE_ABOVE = (
    *(615306343.8605708, -18694267.028957978, 10742756.152656786, 130298.57630990374),
    *(26278.252720853005, 642.4438604989948, 12.635413296034667),
)
_SLOPE_BELOW = (
    *(771172161.9500349, 233627372.19011915, 33502585.72590142, 2988516.9464655905),
    *(182663.30327804424, 7607.763034052838, 242.54700661313885, 1.0),
)


@elementwise(
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
    if approximate == "none":
        return in_blocks(xp, _exact, input)
    if approximate == "tanh":
        return in_blocks(xp, _by_tanh, input)
    raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}.")


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
    return in_blocks(xp, slope, gradient, input)


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
        odd_ratio(xp, _ABOVE, _BELOW, _LIMIT, x, out).clip(-0.5, 0.5, out=out)
        out += 0.5


def _exact_slope(xp: Namespace, out: Array, g: Array, x: Array) -> None:
    if x.dtype != F64 and x.size >= FEW:
        ratio = odd_ratio(xp, _SLOPE_ABOVE, _SLOPE_BELOW, _SLOPE_LIMIT, x, out)
        xp.add(ratio, 0.5, out=out)
    else:
        density = x * x
        density *= -0.5
        xp.exp(density, density)
        density *= x
        density *= _DENSITY
        _below(xp, out, x)
        out += density
    xp.multiply(out, g, out)


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
