"""Smooth activations: gelu, silu, mish, softplus, elu.

Each has its slope times a gradient as an operator of its own, since both go through large arrays in
blocks that stay in cache.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.operators.arithmetic import keep_where, unsupported
from pullback.operators.batching import together
from pullback.operators.blocks import elementwise as in_blocks
from pullback.operators.declare import Array, Namespace, elementwise
from pullback.operators.erf import erf_double, erf_single
from pullback.operators.pointwise import exp, sigmoid
from pullback.operators.trigonometry import tanh

__all__ = [
    "celu_kernel",
    "elu_kernel",
    "gelu",
    "logsigmoid",
    "mish_kernel",
    "silu_kernel",
    "softplus",
]


def check_floating(op: str, array: Array) -> None:
    """Refuse what an activation has no meaning for."""
    if array.dtype.kind not in "fV":
        raise unsupported(op, array)


# gelu ---------------------------------------------------------------------------------------------

_ROOT_HALF = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)
_SCALE = math.sqrt(2 / math.pi)  # of the tanh approximation
_CUBIC = 0.044715


@elementwise(
    input=lambda g, input, approximate: _gelu_adjoint(g, input, approximate),
    space="nn.functional",
)
def gelu(xp: Namespace, input: Array, *, approximate: str = "none") -> Array:
    """`x` times the probability that a normal variable is below `x`; or a tanh close to that."""
    check_floating("gelu", input)
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}.")
    return in_blocks(xp, _gelu_exact if approximate == "none" else _gelu_tanh, input)


def _gelu_exact(xp: Namespace, out: Array, x: Array) -> None:
    _below(xp, out, x)
    out *= x


def _below(xp: Namespace, out: Array, x: Array) -> None:
    """The probability that a normal variable is below `x`."""
    (erf_double if x.dtype == xp.float64 else erf_single)(xp, out, x * _ROOT_HALF)
    out += 1
    out *= 0.5


def _gelu_tanh(xp: Namespace, out: Array, x: Array) -> None:
    _tanh_inside(xp, out, x)
    out += 1
    out *= x
    out *= 0.5


def _tanh_inside(xp: Namespace, out: Array, x: Array) -> None:
    xp.multiply(x, x, out=out)
    out *= _SCALE * _CUBIC
    out += _SCALE
    out *= x
    xp.tanh(out, out=out)


def _gelu_curvature(input: Any, approximate: str) -> Any:
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
    input=lambda g, gradient, input, approximate: (
        g * gradient * _gelu_curvature(input, approximate)
    ),
    node="GeluBackwardBackward0",
    has_out=False,
)
def _gelu_adjoint(xp: Namespace, gradient: Array, input: Array, approximate: str) -> Array:
    slope = _gelu_exact_slope if approximate == "none" else _gelu_tanh_slope
    return in_blocks(xp, slope, gradient, input)


def _gelu_exact_slope(xp: Namespace, out: Array, g: Array, x: Array) -> None:
    density = x * x
    density *= -0.5
    xp.exp(density, out=density)
    density *= x
    density *= _DENSITY
    _below(xp, out, x)
    out += density
    out *= g


def _gelu_tanh_slope(xp: Namespace, out: Array, g: Array, x: Array) -> None:
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


# silu and mish ------------------------------------------------------------------------------------


def _silu_curvature(input: Any) -> Any:
    s: Any = sigmoid(input)
    return s * (1 - s) * (2 + input * (1 - 2 * s))


@elementwise(
    input=lambda g, input: _silu_adjoint(g, input),
    node="SiluBackward0",
    method=False,
    has_out=False,
)
def silu_kernel(xp: Namespace, input: Array) -> Array:
    """`x * sigmoid(x)`."""
    if input.dtype.kind == "c":
        return input / (1 + xp.exp(-input))
    check_floating("silu", input)
    return in_blocks(xp, _silu, input)


def _silu(xp: Namespace, out: Array, x: Array) -> None:
    xp.negative(x, out=out)
    xp.exp(out, out=out)
    out += 1
    xp.divide(x, out, out=out)


@elementwise(
    batch=together,
    gradient=lambda g, input: _silu_adjoint(g, input),
    input=lambda g, gradient, input: g * gradient * _silu_curvature(input),
    node="SiluBackwardBackward0",
    has_out=False,
)
def _silu_adjoint(xp: Namespace, gradient: Array, input: Array) -> Array:
    if input.dtype.kind == "c":
        raise RuntimeError("silu: has no gradient for complex tensors.")
    return in_blocks(xp, _silu_slope, gradient, input)


def _silu_slope(xp: Namespace, out: Array, g: Array, x: Array) -> None:
    s = -x
    xp.exp(s, out=s)
    s += 1
    xp.reciprocal(s, out=s)
    xp.subtract(1, s, out=out)
    out *= x
    out += 1
    out *= s
    out *= g


def _mish_curvature(input: Any) -> Any:
    s: Any = sigmoid(input)
    t: Any = tanh(softplus(input))
    first = (1 - t * t) * s  # the slope of t
    return first * (2 + input * (1 - s - 2 * t * s))


@elementwise(
    input=lambda g, input: _mish_adjoint(g, input),
    node="MishBackward0",
    method=False,
    has_out=False,
)
def mish_kernel(xp: Namespace, input: Array) -> Array:
    """`x * tanh(softplus(x))`."""
    check_floating("mish", input)
    return in_blocks(xp, _mish, input)


def _tanh_softplus(xp: Namespace, out: Array, x: Array) -> None:
    """`tanh(log(1 + e^x))` is `(e^2x + 2 e^x) / (e^2x + 2 e^x + 2)`; from 20 on it rounds to 1."""
    e = xp.exp(xp.minimum(x, 20))
    xp.add(e, 2, out=out)
    out *= e
    xp.add(out, 2, out=e)
    out /= e


def _mish(xp: Namespace, out: Array, x: Array) -> None:
    _tanh_softplus(xp, out, x)
    out *= x


@elementwise(
    batch=together,
    gradient=lambda g, input: _mish_adjoint(g, input),
    input=lambda g, gradient, input: g * gradient * _mish_curvature(input),
    node="MishBackwardBackward0",
    has_out=False,
)
def _mish_adjoint(xp: Namespace, gradient: Array, input: Array) -> Array:
    return in_blocks(xp, _mish_slope, gradient, input)


def _mish_slope(xp: Namespace, out: Array, g: Array, x: Array) -> None:
    _tanh_softplus(xp, out, x)
    slope = 1 - out * out
    slope *= x
    slope /= 1 + xp.exp(-x)
    out += slope
    out *= g


# softplus -----------------------------------------------------------------------------------------


def _softplus_slope(input: Any, beta: float, threshold: float) -> Any:
    scaled = input * beta
    slope: Any = sigmoid(scaled)
    # Beyond the threshold the result is the input itself, and the slope 1.
    return slope + keep_where(1 - slope, scaled > threshold)


@elementwise(
    input=lambda g, input, beta, threshold: g * _softplus_slope(input, beta, threshold),
    space="nn.functional",
)
def softplus(xp: Namespace, input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """`log(1 + exp(beta * x)) / beta`, a smooth relu; `x` itself where `beta * x > threshold`."""
    check_floating("softplus", input)

    def kernel(xp: Namespace, out: Array, x: Array) -> None:
        scaled = x if beta == 1 else x * beta
        log_one_plus_exp(xp, out, scaled)
        if beta != 1:
            out /= beta
        far = scaled > threshold
        xp.copyto(out, x, where=far)

    return in_blocks(xp, kernel, input)


def log_one_plus_exp(xp: Namespace, out: Array, x: Array) -> None:
    """`log(1 + exp(x))`, with the exponential of -|x| only."""
    xp.absolute(x, out=out)
    xp.negative(out, out=out)
    xp.exp(out, out=out)
    # log(1 + e) with the rounding of 1 + e undone; log1p takes 4 times as long.
    rounded = out + 1
    lost = rounded - 1
    xp.log(rounded, out=rounded)
    rounded *= out
    xp.divide(rounded, lost, out=out, where=lost != 0)
    out += xp.maximum(x, 0)


@elementwise(
    input=lambda g, input: g * sigmoid(-input),
    space="nn.functional",
    node="LogSigmoidBackward0",
)
def logsigmoid(xp: Namespace, input: Array) -> Array:
    """`log(sigmoid(x))`, without its rounding to minus infinity."""
    check_floating("logsigmoid", input)

    def kernel(xp: Namespace, out: Array, x: Array) -> None:
        log_one_plus_exp(xp, out, -x)
        xp.negative(out, out=out)

    return in_blocks(xp, kernel, input)


# elu ----------------------------------------------------------------------------------------------


@elementwise(
    input=lambda g, input, alpha, scale, input_scale: (
        g * _elu_slope(input, alpha, scale, input_scale)
    ),
    name="elu",
    space="nn.functional",
    has_out=False,
)
def elu_kernel(
    xp: Namespace, input: Array, alpha: float, scale: float, input_scale: float
) -> Array:
    """`scale * x`, or `scale * alpha * (exp(input_scale * x) - 1)` where x is negative."""
    return _elu(xp, input, alpha, scale, input_scale)


@elementwise(
    input=lambda g, input, alpha: g * _elu_slope(input, alpha, 1.0, 1 / alpha),
    name="celu",
    space="nn.functional",
    has_out=False,
)
def celu_kernel(xp: Namespace, input: Array, alpha: float) -> Array:
    """`x`, or `alpha * (exp(x / alpha) - 1)` where x is negative."""
    if alpha == 0:
        raise RuntimeError("celu: alpha must not be 0 (ZeroDivisionError).")
    return _elu(xp, input, alpha, 1.0, 1 / alpha)


def _elu(xp: Namespace, input: Array, alpha: float, scale: float, input_scale: float) -> Array:
    check_floating("elu", input)

    def kernel(xp: Namespace, out: Array, x: Array) -> None:
        xp.minimum(x, 0, out=out)
        out *= input_scale / 2
        # exp(x) - 1 by way of tanh(x / 2): expm1 takes 48 ms for 4 million float32, this 15.
        xp.tanh(out, out=out)
        out /= 1 - out
        out *= 2 * alpha
        out += xp.maximum(x, 0)
        if scale != 1:
            out *= scale

    return in_blocks(xp, kernel, input)


@elementwise(
    input=lambda g, input, alpha, scale, input_scale: (
        keep_where(g * exp(keep_where(input, input < 0) * input_scale), input < 0)
        * (alpha * scale * input_scale * input_scale)
    ),
    has_out=False,
)
def _elu_slope(
    xp: Namespace, input: Array, alpha: float, scale: float, input_scale: float
) -> Array:
    left = alpha * scale * input_scale  # the slope just left of 0

    def kernel(xp: Namespace, out: Array, x: Array) -> None:
        xp.fmin(x, 0, out=out)
        out *= input_scale
        xp.exp(out, out=out)
        if left != 1:
            out *= left
        if left != scale:  # at the right, where this is `left` so far
            out += ~(x <= 0) * x.dtype.type(scale - left)

    return in_blocks(xp, kernel, input)
