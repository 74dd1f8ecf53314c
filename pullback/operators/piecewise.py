"""Activations made of straight pieces: hardtanh, hardswish, leaky_relu, the shrinks, threshold."""

from __future__ import annotations

from typing import Any

from pullback.operators.arithmetic import keep_where, unsupported
from pullback.operators.declare import Array, Namespace, elementwise
from pullback.operators.smooth import check_floating

__all__ = [
    "hardshrink",
    "hardsigmoid_kernel",
    "hardswish_kernel",
    "hardtanh_kernel",
    "leaky_relu_kernel",
    "prelu_kernel",
    "softshrink",
    "threshold_kernel",
]


@elementwise(
    input=lambda g, input, min_val, max_val: keep_where(
        g, ~((input <= min_val) | (input >= max_val))
    ),
    name="hardtanh",
    node="HardtanhBackward0",
    space="nn.functional",
    has_out=False,
)
def hardtanh_kernel(xp: Namespace, input: Array, min_val: float, max_val: float) -> Array:
    """`x`, kept between two numbers; the slope is 0 at and beyond them."""
    if input.dtype.kind in "bc":
        raise unsupported("hardtanh", input)
    return input.clip(input.dtype.type(min_val), input.dtype.type(max_val))


@elementwise(
    input=lambda g, input: keep_where(g * (1 / 6), (input > -3) & (input < 3)),
    name="hardsigmoid",
    node="HardsigmoidBackward0",
    space="nn.functional",
    has_out=False,
)
def hardsigmoid_kernel(xp: Namespace, input: Array) -> Array:
    """A straight line from 0 at -3 to 1 at 3."""
    check_floating("hardsigmoid", input)
    return (input + 3).clip(0, 6) * (1 / 6)


@elementwise(
    input=lambda g, input: keep_where(g * (1 / 3), (input > -3) & (input < 3)), has_out=False
)
def _hardswish_slope(xp: Namespace, input: Array) -> Array:
    slope = xp.asarray(input * (1 / 3) + 0.5)
    xp.copyto(slope, 0, where=input <= -3)
    xp.copyto(slope, 1, where=~(input < 3))
    return slope


@elementwise(
    input=lambda g, input: g * _hardswish_slope(input),
    name="hardswish",
    node="HardswishBackward0",
    space="nn.functional",
    has_out=False,
)
def hardswish_kernel(xp: Namespace, input: Array) -> Array:
    """`x` times `hardsigmoid(x)`."""
    check_floating("hardswish", input)
    return input * (input + 3).clip(0, 6) * (1 / 6)


def _near(input: Any, limit: float) -> Any:
    """Whether |x| is at most `limit`; NaN is not."""
    return (input <= limit) & (input >= -limit)


@elementwise(
    input=lambda g, input, lambd: keep_where(g, ~_near(input, lambd)),
    inplace=False,
)
def hardshrink(xp: Namespace, input: Array, lambd: float = 0.5) -> Array:
    """`x`, or 0 where it is between `-lambd` and `lambd`."""
    check_floating("hardshrink", input)
    return xp.where(_near(input, lambd), input.dtype.type(0), input)


@elementwise(
    input=lambda g, input, lambd: keep_where(g, ~_near(input, lambd)),
    space="nn.functional",
)
def softshrink(xp: Namespace, input: Array, lambd: float = 0.5) -> Array:
    """`x` moved towards 0 by `lambd`, and 0 where that would change its sign."""
    check_floating("softshrink", input)
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambd must not be negative, got {lambd}.")
    return input - input.clip(-lambd, lambd)


@elementwise(
    input=lambda g, input, threshold: keep_where(g, ~(input <= threshold)),
    name="threshold",
    node="ThresholdBackward0",
    space="nn.functional",
    has_out=False,
)
def threshold_kernel(xp: Namespace, input: Array, threshold: float, value: float) -> Array:
    """`x` where it is above `threshold`, `value` elsewhere."""
    if input.dtype.kind in "bc":
        raise unsupported("threshold", input)
    return xp.where(input <= threshold, input.dtype.type(value), input)


@elementwise(
    input=lambda g, input, negative_slope: g * _leaky_slope(input, negative_slope),
    name="leaky_relu",
    node="LeakyReluBackward0",
    space="nn.functional",
    has_out=False,
)
def leaky_relu_kernel(xp: Namespace, input: Array, negative_slope: float) -> Array:
    """`x`, or `negative_slope * x` where it is negative."""
    check_floating("leaky_relu", input)
    if 0 <= negative_slope <= 1:
        return xp.maximum(input, input * negative_slope)
    return xp.where(input > 0, input, input * negative_slope)


@elementwise(has_out=False)
def _leaky_slope(xp: Namespace, input: Array, negative_slope: float) -> Array:
    kind = input.dtype.type
    if 0 <= negative_slope <= 1:  # a mask chooses slowly where it has no pattern
        return xp.maximum((input > 0).astype(kind), kind(negative_slope))
    return xp.where(input > 0, kind(1), kind(negative_slope))


def _prelu_input(g: Any, input: Any, weight: Any) -> Any:
    right: Any = keep_where(g, input > 0)
    return right + keep_where(g * weight, input <= 0)


@elementwise(
    input=_prelu_input,
    weight=lambda g, input: keep_where(g * input, input <= 0),
    name="prelu",
    node="PreluKernelBackward0",
    space="nn.functional",
    has_out=False,
)
def prelu_kernel(xp: Namespace, input: Array, weight: Array) -> Array:
    """`x`, or `weight * x` where it is negative; `weight` broadcasts."""
    check_floating("prelu", input)
    return xp.where(input > 0, input, input * weight)
