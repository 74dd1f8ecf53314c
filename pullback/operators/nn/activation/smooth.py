"""Smooth activations: silu, mish, softplus, logsigmoid, elu; gelu has a file of its own."""

from __future__ import annotations

from typing import Any

import numpy
from numpy import float32, ndarray

from pullback.core.errors import unsupported
from pullback.core.promotion import is_half
from pullback.operators.declare import Array, Namespace
from pullback.operators.formula.declare import pointwise
from pullback.operators.formula.formulas import formula, slope, variant
from pullback.operators.formula.special import expm1_below, log1pexp, logistic
from pullback.operators.pointwise.exponentials import sigmoid

_SAME_FROM = 17


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


def _silu_slope(xp: Any, input: Any) -> Any:
    # Without the quotient of infinities that the mechanical one has far at the left.
    s = logistic(xp, input)
    return s * (1 + input * (1 - s))


@pointwise(
    input=slope(_silu_slope),
    kinds="fVc",
    called="silu",
    node="SiluBackward0",
    method=False,
    has_out=False,
    aten="silu.default",
)
def silu_kernel(xp: Namespace, input: Array) -> Array:
    """`x * sigmoid(x)`."""
    return input / (1 + xp.exp(-input))


@variant(silu_kernel, "native")
def _by_sigmoid(xp: Any, input: Any) -> Any:
    return input * logistic(xp, input)


@formula(x=slope(lambda xp, x, out: (1 - out * out) * logistic(xp, x)))
def tanh_softplus(xp: Any, x: Any) -> Any:
    """`tanh(log(1 + e^x))` is `(e^2x + 2 e^x) / (e^2x + 2 e^x + 2)`; from 20 on it rounds to 1."""
    e = xp.exp(xp.minimum(x, 20.0))
    above = e * (e + 2)
    return above / (above + 2)


@pointwise(called="mish", node="MishBackward0", method=False, has_out=False, aten="mish.default")
def mish_kernel(xp: Namespace, input: Array) -> Array:
    """`x * tanh(softplus(x))`."""
    return input * tanh_softplus(xp, input)


# softplus -----------------------------------------------------------------------------------------


def _softplus_slope(xp: Any, input: Any, beta: float, threshold: float) -> Any:
    # Beyond the threshold the result is the input itself, and the slope 1.
    return xp.where(input * beta > threshold, 1.0, logistic(xp, input * beta))


@pointwise(input=slope(_softplus_slope), casts_out=False, space="nn.functional")
def softplus(xp: Namespace, input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """`log(1 + exp(beta * x)) / beta`, a smooth relu; `x` itself where `beta * x > threshold`.

    >>> import pullback as torch
    >>> torch.nn.functional.softplus(torch.tensor([0.0, 2.0]))
    tensor([0.6931, 2.1269])
    """
    scaled = input * beta
    return xp.where(scaled > threshold, input, log1pexp(xp, scaled) / beta)


@variant(softplus, "few", "f4")
@variant(softplus, "many", "f4")
def _as_it_is(xp: Any, input: Any, beta: float, threshold: float) -> Any:
    if beta == 1 and threshold >= _SAME_FROM:  # from where the sum rounds to x in float32 anyway
        return log1pexp(xp, input)
    return softplus.formula.function(xp, input, beta, threshold)


@variant(softplus.adjoints["input"], "few", "f4")
@variant(softplus.adjoints["input"], "many", "f4")
def _slope_as_it_is(xp: Any, gradient: Any, input: Any, beta: float, threshold: float) -> Any:
    if beta == 1 and threshold >= _SAME_FROM:
        return gradient * logistic(xp, input)
    return gradient * _softplus_slope(xp, input, beta, threshold)


@pointwise(
    input=lambda g, input: g * sigmoid(-input),
    casts_out=False,
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
    return -log1pexp(xp, -input)


# elu ----------------------------------------------------------------------------------------------


def _elu_slope(xp: Any, input: Any, alpha: float, scale: float, input_scale: float) -> Any:
    # The exponential as it is, where the mechanical one adds 1 to expm1; at 0, that of the left.
    left = alpha * scale * input_scale
    below = xp.where(input < 0, input, 0.0)  # at 0 the second derivative is that of the right
    return xp.where(input <= 0, left * xp.exp(input_scale * below), scale)


@pointwise(
    input=slope(_elu_slope),
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
    below = expm1_below(xp, xp.minimum(input, 0.0) * input_scale)
    return (xp.maximum(input, 0.0) + below * alpha) * scale


_elu = elu_kernel.formula


@variant(elu_kernel, "few")
def _elu_of_few(xp: Any, input: Any, alpha: float, scale: float, input_scale: float) -> Any:
    if alpha == scale == input_scale == 1:  # exp(x) - 1 is never below x
        return xp.maximum(input, xp.expm1(xp.minimum(input, 0.0)))
    return _elu.function(xp, input, alpha, scale, input_scale)


@variant(elu_kernel.adjoints["input"], "few")
@variant(elu_kernel.adjoints["input"], "many")
def _without_a_jump(
    xp: Any, gradient: Any, input: Any, alpha: float, scale: float, input_scale: float
) -> Any:
    if alpha * input_scale == 1:  # then exp(0) is the slope at the right
        return gradient * (scale * xp.exp(input_scale * xp.where(input <= 0, input, 0.0)))
    return gradient * _elu_slope(xp, input, alpha, scale, input_scale)


def _check_alpha(alpha: float) -> None:
    if alpha == 0:
        raise RuntimeError("celu: alpha must not be 0 (ZeroDivisionError).")


@pointwise(
    check=_check_alpha,
    name="celu",
    space="nn.functional",
    has_out=False,
    called="elu",
    aten_defaults={"alpha": 1.0},
)
def celu_kernel(xp: Namespace, input: Array, alpha: float) -> Array:
    """`x`, or `alpha * (exp(x / alpha) - 1)` where x is negative."""
    made: Any = _elu(xp, input, alpha=alpha, scale=1.0, input_scale=1 / alpha)
    return made
