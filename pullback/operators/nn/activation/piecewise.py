"""Activations made of straight pieces: hardtanh, hardswish, leaky_relu, the shrinks, threshold."""

from __future__ import annotations

from typing import Any

from pullback.core.errors import unsupported
from pullback.core.promotion import is_half
from pullback.operators.arrays.choosing import choose, kept
from pullback.operators.arrays.direct import clip  # noqa: F401 (in `usual`)
from pullback.operators.declare import Array, Namespace
from pullback.operators.formula.declare import pointwise
from pullback.operators.formula.formulas import slope
from pullback.operators.nn.activation.smooth import in_float32
from pullback.operators.running.writes import finite_array
from pullback.operators.running.writes import number_array as checked  # noqa: F401 (in `usual`)

FOUND_IN = {"nn.functional": "hardshrink"}


def _clipped(xp: Namespace, input: Array, min_val: float, max_val: float) -> Array:
    if input.dtype.kind in "bcV":
        return in_float32("hardtanh", hardtanh_kernel, input, min_val, max_val)
    low, high = (finite_array("hardtanh", limit, input.dtype) for limit in (min_val, max_val))
    return input.clip(low, high)


@pointwise(
    forward=_clipped,
    name="hardtanh",
    node="HardtanhBackward0",
    space="nn.functional",
    has_out=False,
    inline="clip(a0, checked('hardtanh', $min_val, dtype), checked('hardtanh', $max_val, dtype)) "
    "if ((dtype := a0.dtype) is F32 or dtype is F64) and ndarray is host_array "
    "else forward(numpy, a0, $min_val, $max_val)",
)
def hardtanh_kernel(xp: Namespace, input: Array, min_val: float, max_val: float) -> Array:
    """`x`, kept between two numbers; the slope is 0 at and beyond them."""
    below = xp.where(input >= max_val, max_val, input)
    return xp.where(input <= min_val, min_val, below)


def _hardsigmoid_slope(xp: Any, input: Any) -> Any:
    return xp.where((input > -3.0) & (input < 3.0), 1 / 6, 0.0)


@pointwise(
    input=slope(_hardsigmoid_slope),
    name="hardsigmoid",
    node="HardsigmoidBackward0",
    space="nn.functional",
    has_out=False,
)
def hardsigmoid_kernel(xp: Namespace, input: Array) -> Array:
    """A straight line from 0 at -3 to 1 at 3."""
    return xp.clip(input + 3, 0.0, 6.0) * (1 / 6)


def _hardswish_slope(xp: Any, input: Any) -> Any:
    inner = xp.where(input < 3.0, input * (1 / 3) + 0.5, 1.0)
    return xp.where(input <= -3.0, 0.0, inner)


@pointwise(
    input=slope(_hardswish_slope),
    name="hardswish",
    node="HardswishBackward0",
    space="nn.functional",
    has_out=False,
)
def hardswish_kernel(xp: Namespace, input: Array) -> Array:
    """`x` times `hardsigmoid(x)`."""
    return xp.clip(input + 3, 0.0, 6.0) * (1 / 6) * input


def _shrink_slope(xp: Any, input: Any, lambd: float) -> Any:
    return xp.where((input <= lambd) & (input >= -lambd), 0.0, 1.0)


@pointwise(
    input=slope(_shrink_slope),
    casts_out=False,
    inplace=False,
    rounded="lambd",
    rounded_backward="lambd",
)
def hardshrink(xp: Namespace, input: Array, lambd: float = 0.5) -> Array:
    """`x`, or 0 where it is between `-lambd` and `lambd`.

    >>> import pullback as torch
    >>> torch.hardshrink(torch.tensor([-1.0, 0.3, 2.0]))
    tensor([-1.,  0.,  2.])
    """
    return xp.where((input <= lambd) & (input >= -lambd), 0.0, input)


def _check_lambd(lambd: float) -> None:
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambd must not be negative, got {lambd}.")


@pointwise(
    input=slope(_shrink_slope),
    check=_check_lambd,
    casts_out=False,
    space="nn.functional",
    rounded_backward="lambd",
)
def softshrink(xp: Namespace, input: Array, lambd: float = 0.5) -> Array:
    """`x` moved towards 0 by `lambd`, and 0 where that would change its sign.

    >>> import pullback as torch
    >>> torch.nn.functional.softshrink(torch.tensor([-1.0, 0.3, 2.0]))
    tensor([-0.5000,  0.0000,  1.5000])
    """
    return input - xp.clip(input, -lambd, lambd)


def _above_threshold(xp: Namespace, input: Array, threshold: float, value: float) -> Array:
    if input.dtype.kind in "bc":
        raise unsupported("threshold", input)
    # A number beside half precision is compared in single.
    above = ~(input <= (xp.float32(threshold) if is_half(input.dtype) else threshold))
    if value == 0:
        return kept(xp, above, input)
    return choose(xp, above, input, finite_array("threshold", value, input.dtype))


@pointwise(
    forward=_above_threshold,
    name="threshold",
    node="ThresholdBackward0",
    space="nn.functional",
    has_out=False,
)
def threshold_kernel(xp: Namespace, input: Array, threshold: float, value: float) -> Array:
    """`x` where it is above `threshold`, `value` elsewhere."""
    return xp.where(input <= threshold, value, input)


@pointwise(
    name="leaky_relu",
    node="LeakyReluBackward0",
    space="nn.functional",
    has_out=False,
    aten_defaults={"negative_slope": 0.01},
)
def leaky_relu_kernel(xp: Namespace, input: Array, negative_slope: float) -> Array:
    """`x`, or `negative_slope * x` where it is negative."""
    return xp.where(input > 0, input, input * negative_slope)


@pointwise(
    name="prelu",
    node="PreluKernelBackward0",
    space="nn.functional",
    has_out=False,
    aten="_prelu_kernel.default",
)
def prelu_kernel(xp: Namespace, input: Array, weight: Array) -> Array:
    """`x`, or `weight * x` where it is negative; `weight` broadcasts."""
    return xp.where(input > 0, input, input * weight)
