"""Norm layers on numbers of any type: means, deviations, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.numbers.types import NumberType
from pullback.operators.nn.norm.layout import Layout, Over, layout

__all__ = ["KERNEL_OVERRIDES"]


def _mean(x: Array, seen: Layout) -> Array:
    return numpy.add.reduce(x, seen.dims, keepdims=True) / seen.size


def _standard(input: Array, over: Over) -> tuple[Array, Array, Layout]:
    """The input with mean 0 and deviation 1, the inverse of its deviation, and how it lies."""
    seen = layout(input.shape, over)
    x = input.reshape(seen.shape)
    if over.centred:
        x = x - _mean(x, seen)
    inverse = 1 / numpy.sqrt(_mean(x * x, seen) + over.eps)
    return x * inverse, inverse, seen


def _standardised(
    numbers: NumberType, input: Array, weight: Any, bias: Any, over: Over, known: Any = None
) -> Array:
    made, _, seen = _standard(input, over)
    if weight is not None:
        made = made * seen.broadcast(weight)
    if bias is not None:
        made = made + seen.broadcast(bias)
    return made.reshape(input.shape)


def _adjoint(
    numbers: NumberType, gradient: Array, input: Array, weight: Any, over: Over, known: Any = None
) -> Array:
    unit, inverse, seen = _standard(input, over)
    v = gradient.reshape(seen.shape)
    if weight is not None:
        v = v * seen.broadcast(weight)
    along = unit * _mean(unit * v, seen)
    rest = v - _mean(v, seen) if over.centred else v
    return ((rest - along) * inverse).reshape(input.shape)


def _of_weight(numbers: NumberType, gradient: Array, input: Array, shape: Any, over: Over) -> Array:
    unit = _standard(input, over)[0].reshape(input.shape)
    product = gradient * unit
    if over.channel is not None:
        dims = tuple(dim for dim in range(product.ndim) if dim != over.channel)
        return numpy.add.reduce(product, dims).reshape(shape)
    lead = product.ndim - len(shape)
    kept = tuple(lead + dim for dim, size in enumerate(shape) if size == 1)
    return numpy.add.reduce(product, (*range(lead), *kept)).reshape(shape)


def _inverse_deviation(numbers: NumberType, input: Array, over: Over) -> Array:
    return _standard(input, over)[1]


KERNEL_OVERRIDES: dict[str, Callable[..., Any]] = {
    "layer_standardise": _standardised,
    "batch_standardise": _standardised,
    "group_standardise": _standardised,
    "_standardise_adjoint": _adjoint,
    "_weight_adjoint": _of_weight,
    "inverse_deviation": _inverse_deviation,
}
