"""Activations made of straight pieces: hardtanh, hardswish, leaky_relu, the shrinks, threshold."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.errors import unsupported
from pullback.core.promotion import is_half
from pullback.operators.arrays.blocks import elementwise as in_blocks
from pullback.operators.arrays.direct import clip  # noqa: F401 (in `usual`)
from pullback.operators.arrays.reductions import number
from pullback.operators.declare import Array, Namespace, elementwise
from pullback.operators.nn.activation.smooth import check_floating, in_float32
from pullback.operators.pointwise.arithmetic import (
    choose,
    gate,
    keep_where,
    kept,
    threshold_gate,
    zeros_of,
)
from pullback.operators.running.writes import finite_array
from pullback.operators.running.writes import number_array as checked  # noqa: F401 (in `usual`)

FOUND_IN = {
    "nn.functional": "hardshrink",
}

_hardshrink_gate = gate("HardshrinkBackwardBackward0")
_hardsigmoid_gate = gate("HardsigmoidBackwardBackward0")
_hardtanh_gate = gate("HardtanhBackwardBackward0")
_prelu_gate = gate("PreluKernelBackwardBackward0")
_softshrink_gate = gate("SoftshrinkBackwardBackward0")


@elementwise(
    input=lambda g, input, min_val, max_val: _hardtanh_gate(
        g, ~((input <= min_val) | (input >= max_val)), input
    ),
    name="hardtanh",
    node="HardtanhBackward0",
    space="nn.functional",
    has_out=False,
    usual="clip(a0, checked('hardtanh', $min_val, dtype), checked('hardtanh', $max_val, dtype)) "
    "if ((dtype := a0.dtype) is F32 or dtype is F64) and ndarray is host_array "
    "else forward(numpy, a0, $min_val, $max_val)",
)
def hardtanh_kernel(xp: Namespace, input: Array, min_val: float, max_val: float) -> Array:
    """`x`, kept between two numbers; the slope is 0 at and beyond them."""
    if input.dtype.kind in "bcV":
        return in_float32("hardtanh", hardtanh_kernel, input, min_val, max_val)
    low, high = (finite_array("hardtanh", limit, input.dtype) for limit in (min_val, max_val))
    return input.clip(low, high)


@elementwise(
    input=lambda g, input: _hardsigmoid_gate(g * (1 / 6), (input > -3) & (input < 3), input),
    name="hardsigmoid",
    node="HardsigmoidBackward0",
    space="nn.functional",
    has_out=False,
)
def hardsigmoid_kernel(xp: Namespace, input: Array) -> Array:
    """A straight line from 0 at -3 to 1 at 3."""
    if input.dtype.kind != "f":
        return in_float32("hardsigmoid", hardsigmoid_kernel, input)
    return in_blocks(xp, _hardsigmoid, input)


def _hardsigmoid(xp: Namespace, out: Array, x: Array) -> None:
    xp.add(x, 3, out)
    out.clip(0, 6, out)
    out *= 1 / 6


@elementwise(
    input=lambda g, input: keep_where(g * (1 / 3), (input > -3) & (input < 3)), has_out=False
)
def _hardswish_slope(xp: Namespace, input: Array) -> Array:
    return in_blocks(xp, _slope_of_hardswish, input)


def _slope_of_hardswish(xp: Namespace, out: Array, x: Array) -> None:
    xp.multiply(x, 1 / 3, out)
    out += 0.5
    xp.copyto(out, 0, where=x <= -3)
    xp.copyto(out, 1, where=~(x < 3))


@elementwise(
    input=lambda g, input: g * _hardswish_slope(input),
    name="hardswish",
    node="HardswishBackward0",
    space="nn.functional",
    has_out=False,
)
def hardswish_kernel(xp: Namespace, input: Array) -> Array:
    """`x` times `hardsigmoid(x)`."""
    if input.dtype.kind != "f":
        return in_float32("hardswish", hardswish_kernel, input)
    return in_blocks(xp, _hardswish, input)


def _hardswish(xp: Namespace, out: Array, x: Array) -> None:
    _hardsigmoid(xp, out, x)
    xp.multiply(out, x, out)


def _near(input: Any, limit: float) -> Any:
    """Whether |x| is at most `limit`, as the dtype of x has it; NaN is not."""
    kind = getattr(input.dtype, "numpy", input.dtype)
    if kind.kind == "V":  # bfloat16, which is compared in float32
        limit = float(numpy.asarray(limit, numpy.float32).astype(kind))
    return (input <= limit) & (input >= -limit)


@elementwise(
    casts_out=False,
    input=lambda g, input, lambd: _hardshrink_gate(g, ~_near(input, lambd), input),
    inplace=False,
)
def hardshrink(xp: Namespace, input: Array, lambd: float = 0.5) -> Array:
    """`x`, or 0 where it is between `-lambd` and `lambd`.

    >>> import pullback as torch
    >>> torch.hardshrink(torch.tensor([-1.0, 0.3, 2.0]))
    tensor([-1.,  0.,  2.])
    """
    check_floating("hardshrink", input)
    return kept(xp, ~_near(input, input.dtype.type(lambd)), input)


@elementwise(
    casts_out=False,
    input=lambda g, input, lambd: _softshrink_gate(g, ~_near(input, lambd), input),
    space="nn.functional",
)
def softshrink(xp: Namespace, input: Array, lambd: float = 0.5) -> Array:
    """`x` moved towards 0 by `lambd`, and 0 where that would change its sign.

    >>> import pullback as torch
    >>> torch.nn.functional.softshrink(torch.tensor([-1.0, 0.3, 2.0]))
    tensor([-0.5000,  0.0000,  1.5000])
    """
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambd must not be negative, got {lambd}.")
    if input.dtype.kind != "f" or input.dtype.itemsize == 2:
        return in_float32("softshrink", softshrink, input, lambd)
    return input - input.clip(-lambd, lambd)


@elementwise(
    input=lambda g, input, threshold: threshold_gate(g, ~(input <= threshold), input),
    name="threshold",
    node="ThresholdBackward0",
    space="nn.functional",
    has_out=False,
)
def threshold_kernel(xp: Namespace, input: Array, threshold: float, value: float) -> Array:
    """`x` where it is above `threshold`, `value` elsewhere."""
    if input.dtype.kind in "bc":
        raise unsupported("threshold", input)
    # A number beside half precision is compared in single.
    above = ~(input <= (xp.float32(threshold) if is_half(input.dtype) else threshold))
    if value == 0:
        return kept(xp, above, input)
    return choose(xp, above, input, finite_array("threshold", value, input.dtype))


@elementwise(
    input=lambda g, input, negative_slope: g * _leaky_slope(input, negative_slope),
    name="leaky_relu",
    node="LeakyReluBackward0",
    space="nn.functional",
    has_out=False,
    aten_defaults={"negative_slope": 0.01},
)
def leaky_relu_kernel(xp: Namespace, input: Array, negative_slope: float) -> Array:
    """`x`, or `negative_slope * x` where it is negative."""
    if input.dtype.kind != "f" or input.dtype.itemsize == 2:
        return in_float32("leaky_relu", leaky_relu_kernel, input, negative_slope)
    gentle = 0 <= negative_slope <= 1
    falling = xp.multiply(input, number(negative_slope, input.dtype))
    if gentle:
        return xp.maximum(input, falling, out=falling if input.ndim else None)
    return choose(xp, input > 0, input, falling)


@elementwise(input=lambda g: zeros_of(g), has_out=False)
def _leaky_slope(xp: Namespace, input: Array, negative_slope: float) -> Array:
    kind = input.dtype.type
    if 0 <= negative_slope <= 1:  # a mask chooses slowly where it has no pattern
        return xp.maximum((input > 0).astype(kind), kind(negative_slope))
    return xp.where(input > 0, kind(1), kind(negative_slope))


def _prelu_input(g: Any, input: Any, weight: Any) -> Any:
    positive = input > 0
    right: Any = _prelu_gate(g, positive, input)
    return right + keep_where(g * weight, ~positive)


@elementwise(
    input=_prelu_input,
    weight=lambda g, input: keep_where(g * input, ~(input > 0)),
    name="prelu",
    node="PreluKernelBackward0",
    space="nn.functional",
    has_out=False,
    aten="_prelu_kernel.default",
)
def prelu_kernel(xp: Namespace, input: Array, weight: Array) -> Array:
    """`x`, or `weight * x` where it is negative; `weight` broadcasts."""
    check_floating("prelu", input)
    return choose(xp, input > 0, input, input * weight)
