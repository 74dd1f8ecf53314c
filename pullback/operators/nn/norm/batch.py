"""Batching rules of norm layers: dimensions move by one; see batching.py."""

from __future__ import annotations

from typing import Any

from pullback.operators.batching import filled, front, padded
from pullback.operators.declare import Op
from pullback.operators.nn.norm.layout import layout

Split = dict[str, Any]
Options = dict[str, Any]


def broadcast_weights(pair: Any, rank: int, channel: int | None) -> Any:
    """Weights, shaped to broadcast against all examples, each of `rank` dimensions."""
    value, bdim = pair
    value = value[None] if bdim is None else front(value, bdim)
    if channel is None:
        return padded(value, 0, rank)
    ones = (1,) * (rank - 1 - channel)
    return value.reshape((value.shape[0], *(1,) * channel, value.shape[1], *ones))


def standardised(op: Op, size: int, split: Split, options: Options) -> Any:
    """The norms themselves; weights that differ between examples are applied afterwards."""
    input, weight, bias = filled(split["input"], size), split["weight"], split["bias"]
    over = options["over"]
    if weight[1] is None and bias[1] is None:
        return op.function(input, weight[0], bias[0], over.moved())
    made = op.function(input, None, None, over.moved())
    rank, channel = made.ndim - 1, over.channel
    if weight[0] is not None:
        made = made * broadcast_weights(weight, rank, channel)
    return made if bias[0] is None else made + broadcast_weights(bias, rank, channel)


def standardised_adjoint(op: Op, size: int, split: Split, options: Options) -> Any:
    """As `standardised`, with the weight on the side of the gradient."""
    g, input = filled(split["gradient"], size), filled(split["input"], size)
    weight, over = split["weight"], options["over"]
    if weight[1] is not None:
        g = g * broadcast_weights(weight, g.ndim - 1, over.channel)
        weight = (None, None)
    return op.function(g, input, weight[0], over.moved())


def standardised_weight(op: Op, size: int, split: Split, options: Options) -> Any:
    """Each example has a sum of its own."""
    shape = tuple(options["shape"])
    g, input = filled(split["gradient"], size), filled(split["input"], size)
    over, weights = options["over"].moved(), shape
    if over.channel is not None:  # weights beside what they belong to, and groups apart
        seen = layout(tuple(input.shape), over)
        g, input, weights = g.reshape(seen.shape), input.reshape(seen.shape), seen.weights or ()
        over = over._replace(channel=None, groups=None)
    own = (size, *(1,) * (input.ndim - 1 - len(weights)), *weights)
    return op.function(g, input, own, over).reshape((size, *shape))


def inverse_deviation(op: Op, size: int, split: Split, options: Options) -> Any:
    """Dimensions move, and that is all."""
    return op.function(front(*split["input"]), options["over"].moved())
