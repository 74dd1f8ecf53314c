"""Losses: batches may be cut; means are sums over the number that counts, on all ranks.

`WRITTEN` are those that are made of other operators when their operands are cut.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from pullback.distributed.tensor import layouts
from pullback.distributed.tensor.dtensor import DTensor
from pullback.distributed.tensor.sharding import Axes, Call, Labels, Rule

__all__ = ["RULES", "WRITTEN"]

_NONE, _MEAN, _SUM = 0, 1, 2
_NAMES = {"none": _NONE, "mean": _MEAN, "sum": _SUM}


def _reduction(call: Call) -> int:
    given = call["reduction"]
    found: int = _NAMES.get(given, given)
    return found


def _squares(call: Call) -> Labels | None:
    shapes = call.shapes
    if shapes[0] != shapes[1]:
        return None
    axes = tuple(range(len(shapes[0])))
    how = _reduction(call)
    if how == _NONE:
        return Labels([axes, axes], [axes])
    made = Labels([axes, axes], [()], sums=frozenset(axes))
    if how == _MEAN:
        whole = prod(shapes[0])

        def finish(mean: Any, parts: Any) -> Any:
            own = parts[0].numel()
            if own == whole:
                return mean
            return mean.mul(own / whole) if own else mean.new_zeros(())

        made.finish = finish
    return made


def _scores(shape: tuple[int, ...]) -> tuple[Axes, Axes]:
    """Labels of scores, whose classes are whole, and of what there is one of for each."""
    if len(shape) == 1:
        return (None,), ()
    return (0, None, *range(2, len(shape))), (0, *range(2, len(shape)))


def _nll(call: Call) -> Labels | None:
    scores, batch = _scores(call.shapes[0])
    if len(call.shapes[1]) != len(batch) or _reduction(call) == _MEAN:
        return None
    out = batch if _reduction(call) == _NONE else ()
    weight = [(None,) for _ in call.shapes[2:]]
    return Labels([scores, batch, *weight], [out, ()], sums=frozenset(batch))


def _nll_adjoint(call: Call) -> Labels | None:
    shape = tuple(call["shape"])
    scores, batch = _scores(shape)
    if len(call.shapes[1]) != len(batch) or _reduction(call) == _MEAN:
        return None
    gradient = batch if _reduction(call) == _NONE else ()
    weight = [(None,) for _ in call.shapes[2:]]
    return Labels([gradient, batch, *weight], [scores], shapes={"shape": shape}, out_shapes=[shape])


def _cross_entropy(call: Call) -> Labels | None:
    scores, batch = _scores(call.shapes[0])
    target = call["target"]
    if _reduction(call) == _MEAN:
        return None
    own = scores if _is_of_probabilities(call) else batch
    if target.ndim != len(own):
        return None
    out = batch if _reduction(call) == _NONE else ()
    weight = [(None,) for _ in call.shapes[2:]]
    return Labels([scores, own, *weight], [out], sums=frozenset(batch))


def _cross_entropy_adjoint(call: Call) -> Labels | None:
    scores, batch = _scores(call.shapes[1])
    if _reduction(call) == _MEAN:
        return None
    own = scores if _is_of_probabilities(call) else batch
    if call["target"].ndim != len(own):
        return None
    gradient = batch if _reduction(call) == _NONE else ()
    weight = [(None,) for _ in call.shapes[3:]]
    return Labels([gradient, scores, own, *weight], [scores])


def _is_of_probabilities(call: Call) -> bool:
    return bool(call["target"].is_floating_point())


# Made of other operators --------------------------------------------------------------------------


def _is_cut(call: Call, dim: int | None = None, which: str = "self") -> bool:
    """Whether scores lie in parts, of their classes if `dim` says so."""
    scores = call[which]
    if not isinstance(scores, DTensor):
        return False
    where = scores.placements
    return any(one.is_shard(dim) if dim is not None else not one.is_replicate() for one in where)


def _class_dim(scores: Any) -> int:
    return 0 if scores.ndim == 1 else 1


def _count(call: Call, scores: Any) -> Any:
    """By what a mean divides: of targets that count, or of their weights."""
    target, weight = call["target"], call["weight"]
    if _is_of_probabilities(call):
        return max(prod(scores.shape) // scores.shape[_class_dim(scores)], 1)
    counts = target.ne(call["ignore_index"])
    if weight is None:
        made = counts.sum().to(scores.dtype)
    else:
        index = target.where(counts, target.new_zeros(target.shape))
        made = (weight[index] * counts).sum()
    return _whole(made)


def _whole(one: Any) -> Any:
    if isinstance(one, DTensor):
        return one.redistribute(placements=layouts.everywhere(one.device_mesh))
    return one


def _written_forward(call: Call) -> Any:
    """Where classes are cut: no rank has all scores of an example. Means are sums, divided."""
    scores, how = call["self"], _reduction(call)
    dim = _class_dim(scores)
    if _is_cut(call, dim) and not _is_of_probabilities(call):
        each, counts = _by_classes(call, scores, dim)
        if how == _NONE:
            return each
        total = each.sum()
        return total / _whole(counts.sum()) if how == _MEAN else total
    if how != _MEAN or not _is_cut(call):
        return NotImplemented
    total = call.on(call.tensors, {"reduction": "sum"})
    return total / _count(call, scores)


def _by_classes(call: Call, scores: Any, dim: int) -> tuple[Any, Any]:
    """The loss of each example, and how much it counts."""
    target, weight = call["target"], call["weight"]
    counts = target.ne(call["ignore_index"])
    index = target.where(counts, target.new_zeros(target.shape))
    picked = scores.gather(dim, index.unsqueeze(dim)).squeeze(dim)
    factor = counts.to(scores.dtype) if weight is None else weight[index] * counts
    # Not a product with 0: of a class that is ruled out the loss is infinite.
    each = (scores.logsumexp(dim) - picked).masked_fill(counts.logical_not(), 0)
    return each * factor, factor


def _written_adjoint(call: Call) -> Any:
    gradient, scores, how = call["gradient"], call["self"], _reduction(call)
    dim = _class_dim(scores)
    if _is_cut(call, dim) and not _is_of_probabilities(call):
        target, weight = call["target"], call["weight"]
        counts = target.ne(call["ignore_index"])
        index = target.where(counts, target.new_zeros(target.shape))
        factor = counts.to(scores.dtype) if weight is None else weight[index] * counts
        if how == _MEAN:
            gradient = gradient / _whole(factor.sum())
        chosen = _classes(scores, dim).eq(index.unsqueeze(dim)).to(scores.dtype)
        likely = (scores - scores.logsumexp(dim, keepdim=True)).exp()
        return (likely - chosen) * (factor * gradient).unsqueeze(dim)
    if how != _MEAN or not _is_cut(call):
        return NotImplemented
    tensors = call.tensors
    tensors[0] = gradient / _count(call, scores)
    return call.on(tensors, {"reduction": "sum"})


def _classes(scores: DTensor, dim: int) -> DTensor:
    """The numbers of the classes, lying as the scores do."""
    from pullback.distributed.tensor.placement_types import Replicate
    from pullback.operators.create.ranges import arange

    shape = [1] * scores.ndim
    shape[dim] = scores.shape[dim]
    numbers = arange(shape[dim]).reshape(shape)
    where = tuple(one if one.is_shard(dim) else Replicate() for one in scores.placements)
    part = layouts.part_of(numbers, scores.device_mesh, where)
    return DTensor(part, scores.device_mesh, where, shape)


def _written_nll(call: Call) -> Any:
    if _reduction(call) != _MEAN or not _is_cut(call):
        return NotImplemented
    total, weights = call.on(call.tensors, {"reduction": _SUM})
    weights = _whole(weights)
    return total / weights, weights


def _written_nll_adjoint(call: Call) -> Any:
    target, weight = call["target"], call["weight"]
    if _reduction(call) != _MEAN or not _is_cut(call, which="target"):
        return NotImplemented
    counts = target.ne(call["ignore_index"])
    index = target.where(counts, target.new_zeros(target.shape))
    factor = counts if weight is None else weight[index] * counts
    tensors = call.tensors
    tensors[0] = call["gradient"] / _whole(factor.sum())
    return call.on(tensors, {"reduction": "sum"})


RULES: dict[str, Rule] = {
    "mse_loss": _squares,
    "nll_loss_forward": _nll,
    "nll_loss2d_forward": _nll,
    "_nll_adjoint": _nll_adjoint,
    "nn_functional_cross_entropy": _cross_entropy,
    "_cross_entropy_adjoint": _cross_entropy_adjoint,
}
WRITTEN: dict[str, Callable[[Call], Any]] = {
    "nll_loss_forward": _written_nll,
    "nll_loss2d_forward": _written_nll,
    "_nll_adjoint": _written_nll_adjoint,
    "nn_functional_cross_entropy": _written_forward,
    "_cross_entropy_adjoint": _written_adjoint,
}
