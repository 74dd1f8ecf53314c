"""Smooth activations: silu, mish, softplus, elu; gelu has a file of its own.

Each has its slope times a gradient as an operator of its own, since both go through large arrays in
blocks that stay in cache.
"""

from __future__ import annotations

from typing import Any

import numpy
from numpy import float32, ndarray

from pullback.core.arrays import F32
from pullback.core.errors import unsupported
from pullback.core.promotion import is_half
from pullback.operators.arrays.blocks import ONES, ZEROS
from pullback.operators.arrays.blocks import elementwise as in_blocks
from pullback.operators.batching import together
from pullback.operators.declare import Array, Namespace, elementwise
from pullback.operators.pointwise.arithmetic import keep_where
from pullback.operators.pointwise.exponentials import exp, sigmoid, sigmoid_kernel
from pullback.operators.pointwise.trigonometry import tanh

_SAME_FROM = 17
# Elements; below, one slow loop takes less time than several fast ones and their calls.
FEW = 500


def check_floating(op: str, array: Array) -> None:
    """Refuse what an activation has no meaning for."""
    if array.dtype.kind not in "fV":
        raise unsupported(op, array)


def in_float32(op: str, function: Any, *arguments: Any) -> Array:
    """For kernels of NumPy's own floats: half precision as float32, rounded; others are refused.

    Python's floats beside bfloat16 give float32 anyway.
    """
    dtype = arguments[0].dtype
    if not is_half(dtype):
        raise unsupported(op, arguments[0])
    wide = [one.astype(float32) if isinstance(one, ndarray) else one for one in arguments]
    result: Array = function.op.forward(numpy, *wide).astype(dtype)
    return result


# silu and mish ------------------------------------------------------------------------------------


def _silu_curvature(input: Any) -> Any:
    s: Any = sigmoid(input)
    return s * (1 - s) * (2 + input * (1 - 2 * s))


@elementwise(
    input=lambda g, input: _silu_adjoint(g, input),
    node="SiluBackward0",
    method=False,
    has_out=False,
    aten="silu.default",
)
def silu_kernel(xp: Namespace, input: Array) -> Array:
    """`x * sigmoid(x)`."""
    one = ONES.get(input.dtype)
    if one is None or input.size >= FEW or input.ndim == 0:
        if input.dtype.kind not in "fVc":
            raise unsupported("silu", input)
        return in_blocks(xp, _silu, input, formula="silu_kernel")
    out = xp.negative(input)  # the kernel's lines: a call and a buffer are a tenth of the time
    xp.exp(out, out)
    xp.add(out, one, out)
    return xp.divide(input, out, out)


def _silu(xp: Namespace, out: Array, x: Array) -> None:
    xp.negative(x, out)
    xp.exp(out, out)
    xp.add(out, ONES.get(x.dtype, 1), out)
    xp.divide(x, out, out)


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
    return in_blocks(xp, _silu_slope, gradient, input, formula="_silu_adjoint")


def _silu_slope(xp: Namespace, out: Array, g: Array, x: Array) -> None:
    one = ONES.get(x.dtype, 1)
    s = xp.negative(x)
    xp.exp(s, s)
    xp.add(s, one, s)
    xp.reciprocal(s, s)
    xp.subtract(one, s, out)
    xp.multiply(out, x, out)
    xp.add(out, one, out)
    xp.multiply(out, s, out)
    xp.multiply(out, g, out)


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
    aten="mish.default",
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


def _softplus_curvature(input: Any, beta: float, threshold: float) -> Any:
    scaled = input * beta
    s: Any = sigmoid(scaled)
    return keep_where(s * (1 - s), ~(scaled > threshold)) * beta


@elementwise(
    batch=together,
    gradient=lambda g, input, beta, threshold: _softplus_adjoint(g, input, beta, threshold),
    input=lambda g, gradient, input, beta, threshold: (
        g * gradient * _softplus_curvature(input, beta, threshold)
    ),
    node="SoftplusBackwardBackward0",
    has_out=False,
)
def _softplus_adjoint(
    xp: Namespace, gradient: Array, input: Array, beta: float, threshold: float
) -> Array:
    def kernel(xp: Namespace, out: Array, g: Array, x: Array) -> None:
        scaled = x if beta == 1 else x * beta
        sigmoid_kernel(xp, out, scaled)
        # Beyond the threshold the result is the input itself, and the slope 1.
        xp.copyto(out, 1, where=scaled > threshold)
        xp.multiply(out, g, out)

    return in_blocks(xp, kernel, gradient, input)


@elementwise(
    casts_out=False,
    input=lambda g, input, beta, threshold: _softplus_adjoint(g, input, beta, threshold),
    space="nn.functional",
)
def softplus(xp: Namespace, input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """`log(1 + exp(beta * x)) / beta`, a smooth relu; `x` itself where `beta * x > threshold`.

    >>> import pullback as torch
    >>> torch.nn.functional.softplus(torch.tensor([0.0, 2.0]))
    tensor([0.6931, 2.1269])
    """
    # Beyond 17 the result rounds to x in float32 anyway.
    as_it_is = beta == 1 and threshold >= _SAME_FROM and input.dtype is F32
    if as_it_is and input.ndim and input.size < FEW:
        return xp.logaddexp(input, ZEROS[F32])
    check_floating("softplus", input)

    def kernel(xp: Namespace, out: Array, x: Array) -> None:
        scaled = x if beta == 1 else x * beta
        log_one_plus_exp(xp, out, scaled)
        if beta != 1:
            out /= beta
        if not as_it_is:
            xp.copyto(out, x, where=scaled > threshold)

    return in_blocks(xp, kernel, input)


def log_one_plus_exp(xp: Namespace, out: Array, x: Array) -> None:
    """`log(1 + exp(x))`, with the exponential of -|x| only."""
    if x.size < FEW:
        xp.logaddexp(x, ZEROS.get(x.dtype, 0), out)
        return
    xp.absolute(x, out)
    xp.negative(out, out)
    xp.exp(out, out)
    # log(1 + e) with the rounding of 1 + e undone; log1p takes 4 times as long.
    rounded = out + 1
    lost = rounded - 1
    xp.log(rounded, out=rounded)
    rounded *= out
    xp.divide(rounded, lost, out=out, where=lost != 0)
    out += xp.maximum(x, 0)


@elementwise(
    casts_out=False,
    input=lambda g, input: g * sigmoid(-input),
    space="nn.functional",
    node="LogSigmoidBackward0",
    aten="log_sigmoid.default",
)
def logsigmoid(xp: Namespace, input: Array) -> Array:
    """`log(sigmoid(x))`, without its rounding to minus infinity.

    >>> import pullback as torch
    >>> torch.nn.functional.logsigmoid(torch.tensor([0.0, 2.0]))
    tensor([-0.6931, -0.1269])
    """
    zero = ZEROS.get(input.dtype)
    if zero is not None and input.ndim and input.size < FEW:
        out = xp.negative(input)
        xp.logaddexp(out, zero, out)
        return xp.negative(out, out)
    check_floating("logsigmoid", input)
    return in_blocks(xp, _logsigmoid, input)


def _logsigmoid(xp: Namespace, out: Array, x: Array) -> None:
    log_one_plus_exp(xp, out, xp.negative(x))
    xp.negative(out, out)


# elu ----------------------------------------------------------------------------------------------


@elementwise(
    input=lambda g, input, alpha, scale, input_scale: (
        g * _elu_slope(input, alpha, scale, input_scale)
    ),
    name="elu",
    space="nn.functional",
    has_out=False,
    aten="elu.default",
    aten_defaults={"alpha": 1, "scale": 1.0, "input_scale": 1.0},
)
def elu_kernel(
    xp: Namespace, input: Array, alpha: float, scale: float, input_scale: float
) -> Array:
    """`scale * x`, or `scale * alpha * (exp(input_scale * x) - 1)` where x is negative."""
    zero = ZEROS.get(input.dtype)
    if alpha == scale == input_scale == 1 and zero is not None and input.ndim and input.size < FEW:
        out = xp.minimum(input, zero)
        xp.expm1(out, out)
        return xp.maximum(input, out, out=out)  # exp(x) - 1 is never below x
    return _elu(xp, input, alpha, scale, input_scale)


@elementwise(
    input=lambda g, input, alpha: g * _elu_slope(input, alpha, 1.0, 1 / alpha),
    name="celu",
    space="nn.functional",
    has_out=False,
    aten_defaults={"alpha": 1.0},
)
def celu_kernel(xp: Namespace, input: Array, alpha: float) -> Array:
    """`x`, or `alpha * (exp(x / alpha) - 1)` where x is negative."""
    if alpha == 0:
        raise RuntimeError("celu: alpha must not be 0 (ZeroDivisionError).")
    return _elu(xp, input, alpha, 1.0, 1 / alpha)


def _elu(xp: Namespace, input: Array, alpha: float, scale: float, input_scale: float) -> Array:
    check_floating("elu", input)

    def kernel(xp: Namespace, out: Array, x: Array) -> None:
        zero = ZEROS.get(x.dtype, 0)
        xp.minimum(x, zero, out=out)
        _exp_minus_one(xp, out, alpha, input_scale)
        out += xp.maximum(x, zero)
        if scale != 1:
            out *= scale

    return in_blocks(xp, kernel, input)


def _exp_minus_one(xp: Namespace, x: Array, alpha: float, input_scale: float) -> None:
    """`alpha * (exp(input_scale * x) - 1)`, in place."""
    if x.size < FEW:
        if input_scale != 1:
            x *= input_scale
        xp.expm1(x, x)
        if alpha != 1:
            x *= alpha
        return
    # By way of tanh(x / 2): expm1 takes 48 ms for 4 million float32, this 15.
    x *= input_scale / 2
    xp.tanh(x, x)
    x /= 1 - x
    x *= 2 * alpha


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
