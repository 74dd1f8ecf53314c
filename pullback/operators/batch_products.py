"""Batching rules of products: all become one product of stacked matrices; see batching.py."""

from __future__ import annotations

import math
from typing import Any

from pullback.operators.batching import filled, front, ndim_of, padded
from pullback.operators.declare import Op

Split = dict[str, Any]
Options = dict[str, Any]


def _product(a: Any, b: Any) -> Any:
    """`a @ b` of every example, from pairs of tensor and dimension; the examples come in front."""
    rank_a, rank_b = ndim_of(a), ndim_of(b)
    if rank_a == 0 or rank_b == 0:
        raise RuntimeError("matmul: both tensors need at least 1 dimension; use mul for 0-d ones.")
    if rank_a == 1 and rank_b == 1:
        if a[1] is None:
            return front(*b) @ a[0]
        return front(*a) @ b[0] if b[1] is None else (front(*a) * front(*b)).sum(1)
    left = a[0] if a[1] is None else front(*a)
    right = b[0] if b[1] is None else front(*b)
    if rank_a == 1:
        left = left.unsqueeze(-2)
    if rank_b == 1:
        right = right.unsqueeze(-1)
    rank = max(rank_a, rank_b, 2)
    if a[1] is not None:
        left = padded(left, 0, rank)
    if b[1] is not None:
        right = padded(right, 0, rank)
    if a[1] is None and rank_a == 2 and rank_b == 1:
        return front(*b) @ a[0].mT  # one product of two matrices
    result = left @ right
    if rank_a == 1:
        return result.squeeze(-2)
    return result.squeeze(-1) if rank_b == 1 else result


def product(op: Op, size: int, split: Split, options: Options) -> Any:
    """Matmul and its special cases; what one example would be refused for is refused here too."""
    first, second = split.values()
    wanted = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1), "vdot": (1, 1)}.get(op.name)
    got = (ndim_of(first), ndim_of(second))
    if wanted is not None and got != wanted:
        raise RuntimeError(
            f"{op.name}: needs tensors of {wanted[0]} and {wanted[1]} dimensions, got {got[0]} and "
            f"{got[1]}."
        )
    if first[0].dtype is not second[0].dtype:
        raise RuntimeError(
            f"{op.name}: both tensors must have the same dtype, got {first[0].dtype} and "
            f"{second[0].dtype}; convert one of them."
        )
    if op.name == "vdot":
        first = (first[0].conj(), first[1])
    return _product(first, second)


def contracted(op: Op, size: int, split: Split, options: Options) -> Any:
    """The examples are one more label."""
    labels, others, kept = options["labels"], options["others"], options["kept"]
    examples = max((*labels, *others, *kept, 0)) + 1
    (a, first), (b, second) = split["input"], split["other"]
    if first is not None:
        a, labels = front(a, first), (examples, *labels)
    if second is not None:
        b, others = front(b, second), (examples, *others)
    return op.function(a, b, labels, others, (examples, *kept))


def plus_product(op: Op, size: int, split: Split, options: Options) -> Any:
    """`beta * input + alpha * product` for addmm and its relatives."""
    term, first, second = split.values()
    beta, alpha = options["beta"], options["alpha"]
    if op.name == "addr":
        made = filled(first, size).unsqueeze(2) * filled(second, size).unsqueeze(1)
    elif first[1] is None and second[1] is None:
        made = (first[0] @ second[0]).unsqueeze(0)
    else:
        made = _product(first, second)
    if op.name == "addbmm":
        made = made.sum(1)
    if alpha != 1:
        made = made * alpha
    if beta == 0:
        return made if made.shape[0] == size else made.expand((size, *made.shape[1:]))
    value, bdim = term
    if bdim is not None:
        value = padded(value, bdim, made.ndim - 1)
    return made + (value if beta == 1 else value * beta)


def affine(op: Op, size: int, split: Split, options: Options) -> Any:
    """`linear`: examples of the input are further rows, as long as all share one weight."""
    input, weight, bias = split["input"], split["weight"], split["bias"]
    if weight[1] is None and bias[1] is None:
        return op.function(front(*input), weight[0], bias[0])
    matrix = (weight[0].mT, weight[1]) if weight[1] is None else (front(*weight).mT, 0)
    if ndim_of(weight) == 1:
        matrix = weight
    if input[1] is None and matrix[1] is None:
        made = (input[0] @ matrix[0]).unsqueeze(0)
    else:
        made = _product(input, matrix)
    if bias[0] is None:
        return made
    shift = bias[0] if bias[1] is None else padded(bias[0], bias[1], made.ndim - 1)
    return made + shift


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


# Norm layers --------------------------------------------------------------------------------------


def standardised(op: Op, size: int, split: Split, options: Options) -> Any:
    """Dimensions move by one; weights that differ between examples are applied afterwards."""
    input = filled(split["input"], size)
    rest = {"eps": options["eps"], "centred": options["centred"]}
    dims = tuple(dim + 1 for dim in options["dims"])
    weight, bias = split["weight"], split["bias"]
    if weight[1] is None and bias[1] is None:
        return op.function(input, weight[0], bias[0], dims, **rest)
    made = op.function(input, None, None, dims, **rest)
    if weight[0] is not None:
        made = made * _beside(weight, made.ndim - 1)
    return made if bias[0] is None else made + _beside(bias, made.ndim - 1)


def _beside(pair: Any, rank: int) -> Any:
    value, bdim = pair
    return value if bdim is None else padded(value, bdim, rank)


def standardised_adjoint(op: Op, size: int, split: Split, options: Options) -> Any:
    """As `standardised`, with the weight on the side of the gradient."""
    g, input, weight = (
        filled(split["gradient"], size),
        filled(split["input"], size),
        split["weight"],
    )
    dims = tuple(dim + 1 for dim in options["dims"])
    if weight[1] is not None:
        g, weight = g * _beside(weight, g.ndim - 1), (None, None)
    return op.function(g, input, weight[0], dims, options["eps"], options["centred"])


def standardised_weight(op: Op, size: int, split: Split, options: Options) -> Any:
    """Each example has a sum of its own."""
    shape = tuple(options["shape"])
    g, input = filled(split["gradient"], size), filled(split["input"], size)
    rank = input.ndim - 1
    own = (size, *(1,) * (rank - len(shape)), *shape)
    dims = tuple(dim + 1 for dim in options["dims"])
    made = op.function(g, input, own, dims, options["eps"], options["centred"])
    return made.reshape((size, *shape))


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
