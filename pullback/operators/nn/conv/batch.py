"""How vmap runs many convolutions as one: examples become more images, or groups of channels."""

from __future__ import annotations

from typing import Any

from pullback.operators.batching import filled, front
from pullback.operators.declare import Op

__all__ = ["batch_of_channels", "batch_of_weights"]


def _into_channels(value: Any) -> Any:
    """(examples, n, channels, ...) as (n, examples * channels, ...)."""
    size, n, channels, *rest = value.shape
    return value.transpose(0, 1).reshape((n, size * channels, *rest))


def _out_of_channels(value: Any, size: int) -> Any:
    n, channels, *rest = value.shape
    return value.reshape((n, size, channels // size, *rest)).transpose(0, 1)


def batch_of_channels(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """With a shared weight, one convolution of more images; else a group for each example."""
    (input, input_dim), (weight, weight_dim), (bias, bias_dim) = split.values()
    if weight_dim is None:
        images = filled((input, input_dim), size)
        shared = bias if bias_dim is None else None
        out = op.function(images.reshape((-1, *images.shape[2:])), weight, shared, **options)
        out = out.reshape((size, -1, *out.shape[1:]))
    else:
        channels = _into_channels(filled((input, input_dim), size))
        filters = front(weight, weight_dim)
        filters = filters.reshape((-1, *filters.shape[2:]))
        shared = None
        grouped = {**options, "groups": options["groups"] * size}
        out = _out_of_channels(op.function(channels, filters, None, **grouped), size)
    if bias is None or shared is not None:
        return out
    bias = filled((bias, bias_dim), size)
    return out + bias.reshape((size, 1, -1, *(1,) * (out.ndim - 3)))


def batch_of_weights(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """Gradients of a weight, one for each example: a group for each."""
    gradient, input = (_into_channels(filled(pair, size)) for pair in split.values())
    out = op.function(gradient, input, **{**options, "groups": options["groups"] * size})
    return out.reshape((size, -1, *out.shape[1:]))
