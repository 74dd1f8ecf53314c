"""Batching rules of losses over classes and of rows of a table; see batching.py."""

from __future__ import annotations

import math
from typing import Any

from pullback.operators.batching import filled, front, ndim_of, padded
from pullback.operators.declare import Op

Split = dict[str, Any]
Options = dict[str, Any]

# Losses -------------------------------------------------------------------------------------------


def squared_error(op: Op, size: int, split: Split, options: Options) -> Any:
    """mse_loss, reduced within each example."""
    rank = max(ndim_of(pair) for pair in split.values())
    a, b = (v if d is None else padded(v, d, rank) for v, d in (split["input"], split["target"]))
    losses = (a - b) ** 2
    if options["reduction"] == "none":
        return losses
    dims = tuple(range(1, losses.ndim))
    if not dims:
        return losses
    return losses.sum(dims) if options["reduction"] == "sum" else losses.mean(dims)


def _merged(value: Any, *, points: int) -> Any:
    """Examples and their own batch as one batch; examples without one have `points` dimensions."""
    if value.ndim - 1 == points:
        return value
    return value.reshape((value.shape[0] * value.shape[1], *value.shape[2:]))


def _counts(target: Any, weight: Any, ignore_index: int, dtype: Any) -> Any:
    """How much each loss counts: the weight of its class, 0 where it is ignored."""
    kept = target != ignore_index
    counts = kept.to(dtype)
    table, bdim = weight
    if table is None:
        return counts
    classes = target.masked_fill(~kept, 0)
    if bdim is None:
        return counts * table[classes]
    size = target.shape[0]
    chosen = front(table, bdim).gather(1, classes.reshape((size, -1)))
    return counts * chosen.reshape(target.shape)


def by_class(op: Op, size: int, split: Split, options: Options) -> Any:
    """nll_loss and cross_entropy: loss by loss for all examples, then reduced in each."""
    input, target = filled(split["input"], size), filled(split["target"], size)
    ignore_index = options["ignore_index"]
    shape = tuple(input.shape[1:])
    losses = op.function(
        _merged(input, points=1), _merged(target, points=0), None, ignore_index, "none"
    )
    dim = 0 if len(shape) == 1 else 1
    losses = losses.reshape((size, *shape[:dim], *shape[dim + 1 :]))
    counts = _counts(target, split["weight"], ignore_index, input.dtype)
    losses = losses * counts
    if options["reduction"] == "none":
        return losses
    total = losses.reshape((size, -1)).sum(1)
    return total if options["reduction"] == "sum" else total / counts.reshape((size, -1)).sum(1)


def by_class_adjoint(op: Op, size: int, split: Split, options: Options) -> Any:
    """The adjoints of the two: the gradient of each loss, then as without reduction."""
    g, target = filled(split["gradient"], size), filled(split["target"], size)
    counts = _counts(target, split["weight"], options["ignore_index"], g.dtype)
    if options["reduction"] == "mean":
        g = g / counts.reshape((size, -1)).sum(1)
    if options["reduction"] != "none":
        g = g.reshape((size, *(1,) * (target.ndim - 1)))
    g = g * counts
    arguments = {
        "gradient": _merged(g, points=0),
        "target": _merged(target, points=0),
        "weight": None,
        "ignore_index": options["ignore_index"],
        "reduction": "none",
    }
    if "input" in split:
        input = filled(split["input"], size)
        shape = tuple(input.shape)
        arguments["input"] = _merged(input, points=1)
    else:
        shape = (size, *options["shape"])
        flat = shape if len(shape) == 2 else (shape[0] * shape[1], *shape[2:])
        arguments["shape"] = flat
    return op.function(**arguments).reshape(shape)


# Rows of a table ----------------------------------------------------------------------------------


def table_rows(op: Op, size: int, split: Split, options: Options) -> Any:
    """embedding: one table for all takes any indices; several are one below another."""
    weight, indices = split["weight"], split["indices"]
    # How often an index comes is counted within its example.
    counted = options["scale_grad_by_freq"] and indices[1] is not None
    if weight[1] is None and not counted:
        return op.function(weight[0], front(*indices), **options)
    table, index = filled(weight, size), filled(indices, size)
    padding = options["padding_idx"]
    if padding >= 0 and op.name == "embedding":
        row = (index.new_tensor(list(range(table.shape[1]))) == padding).reshape((-1, 1))
        table = table.masked_fill(row, 0) + table.detach().masked_fill(~row, 0)
    flat, moved = _below_another(table, index)
    made = op.function(flat, moved, **{**options, "padding_idx": -1})
    if padding >= 0 and op.name != "embedding":
        made = made.masked_fill((index == padding).unsqueeze(-1), 0)
    return made


def table_rows_adjoint(op: Op, size: int, split: Split, options: Options) -> Any:
    """The adjoint of `table_rows`: a table for each example."""
    g, index = filled(split["gradient"], size), filled(split["indices"], size)
    count, width = options["shape"]
    offset = index.new_tensor([example * count for example in range(size)])
    moved = index + offset.reshape((size, *(1,) * (index.ndim - 1)))
    made = op.function(g, moved, (size * count, width), -1, options["scale_grad_by_freq"])
    made = made.reshape((size, count, width))
    padding = options["padding_idx"]
    if padding >= 0:
        row = index.new_tensor(list(range(count))) == padding
        made = made.masked_fill(row.reshape((-1, 1)), 0)
    return made


def _below_another(table: Any, index: Any) -> tuple[Any, Any]:
    size, count = table.shape[:2]
    offset = index.new_tensor([example * count for example in range(size)])
    moved = index + offset.reshape((size, *(1,) * (index.ndim - 1)))
    return table.reshape((size * count, math.prod(table.shape[2:]))), moved
