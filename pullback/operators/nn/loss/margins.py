"""Losses that want a margin: between classes, between pairs, between near and far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.arrays import namespace
from pullback.core.tensor import Tensor, wrap
from pullback.operators.declare import Array, Namespace
from pullback.operators.formula.declare import pointwise
from pullback.operators.formula.special import log1pexp
from pullback.operators.indexing.gather import gather
from pullback.operators.indexing.selection import masked_fill, where
from pullback.operators.linalg.distance import pairwise_distance
from pullback.operators.nn.activation.smooth import logsigmoid
from pullback.operators.nn.loss.elementwise import reduced, reduction_of
from pullback.operators.options import as_bool
from pullback.operators.pointwise.extrema import clamp_min, minimum
from pullback.operators.pointwise.powers import sqrt
from pullback.operators.reduce.sums import mean, sum
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshaping import reshape

FOUND_IN = {
    "nn.functional": """
        cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss
        multilabel_margin_loss multilabel_soft_margin_loss soft_margin_loss
        triplet_margin_loss triplet_margin_with_distance_loss
    """
}


# Pairs --------------------------------------------------------------------------------------------


def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The input where the target is 1, `max(0, margin - input)` where it is -1.

    >>> import pullback as torch
    >>> torch.nn.functional.hinge_embedding_loss(
    ...     torch.tensor([0.5, 0.5]), torch.tensor([1.0, -1.0])
    ... )
    tensor(0.5000)
    """
    name = reduction_of("hinge_embedding_loss", reduction, size_average, reduce)
    apart = where(target != 1, clamp_min(margin - input, 0), 0.0)
    return reduced(apart + where(target != -1, input, 0.0), name)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """`max(0, -target * (input1 - input2) + margin)`.

    >>> import pullback as torch
    >>> torch.nn.functional.margin_ranking_loss(
    ...     torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([1.0])
    ... )
    tensor(2.)
    """
    name = reduction_of("margin_ranking_loss", reduction, size_average, reduce)
    if not input1.ndim == input2.ndim == target.ndim:
        shapes = ", ".join(str(tuple(one.shape)) for one in (input1, input2, target))
        raise RuntimeError(
            f"margin_ranking_loss: all tensors must have equally many dimensions, got {shapes}."
        )
    return ranked(input1, input2, target, margin, name)


def ranked(input1: Any, input2: Any, target: Any, margin: float, reduction: str) -> Any:
    """The loss of `margin_ranking_loss` for tensors that broadcast."""
    return reduced(clamp_min((input2 - input1) * target + margin, 0), reduction)


def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """`1 - cosine` where the target is 1, `max(0, cosine - margin)` where it is -1.

    >>> import pullback as torch
    >>> a, b = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    >>> torch.nn.functional.cosine_embedding_loss(a, b, torch.tensor([1.0]))
    tensor(1.)
    """
    name = reduction_of("cosine_embedding_loss", reduction, size_average, reduce)
    if target.ndim > 1:
        raise RuntimeError(
            f"cosine_embedding_loss: target must have 0 or 1 dimensions, got {tuple(target.shape)}."
        )
    if not input1.ndim == input2.ndim == target.ndim + 1:
        raise RuntimeError(
            "cosine_embedding_loss: both inputs need one dimension more than target, got shapes "
            f"{tuple(input1.shape)}, {tuple(input2.shape)} and {tuple(target.shape)}."
        )
    dim = target.ndim
    squares = (sum(input1 * input1, dim) + 1e-12) * (sum(input2 * input2, dim) + 1e-12)
    cosine = sum(input1 * input2, dim) / sqrt(squares)
    alike = where(target == 1, 1 - cosine, 0.0)
    return reduced(alike + where(target == -1, clamp_min(cosine - margin, 0), 0.0), name)


@pointwise(called="soft_margin_loss", node="SoftMarginLossBackward0", has_out=False)
def _soft_margin(xp: Namespace, input: Array, target: Array) -> Array:
    return log1pexp(xp, -(target * input))


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """`log(1 + exp(-target * input))`.

    >>> import pullback as torch
    >>> torch.nn.functional.soft_margin_loss(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 1.0]))
    tensor(0.4100)
    """
    name = reduction_of("soft_margin_loss", reduction, size_average, reduce)
    loss = _soft_margin(input, target)
    if loss.shape != input.shape:
        raise RuntimeError(
            f"soft_margin_loss: a target of shape {tuple(target.shape)} does not broadcast to the "
            f"input's, {tuple(input.shape)}."
        )
    return shown_as("SoftMarginLossBackward0", reduced(loss, name))


# Triplets -----------------------------------------------------------------------------------------


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """`max(0, d(anchor, positive) - d(anchor, negative) + margin)`, d the p-norm.

    >>> import pullback as torch
    >>> torch.nn.functional.triplet_margin_loss(
    ...     torch.tensor([[0.0]]), torch.tensor([[1.0]]), torch.tensor([[1.5]])
    ... )
    tensor(0.5000)
    """
    name = reduction_of("triplet_margin_loss", reduction, size_average, reduce)
    return _triplets(
        "triplet_margin_loss",
        (anchor, positive, negative),
        lambda a, b: pairwise_distance(a, b, p, eps),
        margin,
        swap=as_bool(swap, "triplet_margin_loss", "swap"),
        reduction=name,
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: Any = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """`triplet_margin_loss` with a distance of the user's.

    >>> import pullback as torch
    >>> torch.nn.functional.triplet_margin_with_distance_loss(
    ...     torch.tensor([[0.0]]), torch.tensor([[1.0]]), torch.tensor([[1.5]])
    ... )
    tensor(0.5000)
    """
    return _triplets(
        "triplet_margin_with_distance_loss",
        (anchor, positive, negative),
        pairwise_distance if distance_function is None else distance_function,
        margin,
        swap=swap,
        reduction=reduction_of("triplet_margin_with_distance_loss", reduction),
    )


def _triplets(
    op: str, triplet: Any, distance: Any, margin: float, *, swap: bool, reduction: str
) -> Any:
    if margin <= 0:
        raise ValueError(f"{op}: margin must be positive, got {margin}.")
    anchor, positive, negative = triplet
    if not anchor.ndim == positive.ndim == negative.ndim:
        shapes = ", ".join(str(tuple(one.shape)) for one in triplet)
        raise RuntimeError(f"{op}: all tensors must have equally many dimensions, got {shapes}.")
    far = distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clamp_min(distance(anchor, positive) - far + margin, 0), reduction)


# Classes ------------------------------------------------------------------------------------------


def multi_margin_loss(
    input: Any,
    target: Any,
    p: float = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """What the target class lacks of `margin` above each other one, to the power of `p`.

    >>> import pullback as torch
    >>> torch.nn.functional.multi_margin_loss(torch.tensor([[0.1, 0.9]]), torch.tensor([0]))
    tensor(0.9000)
    """
    name = reduction_of("multi_margin_loss", reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, got {p}.")
    scores, classes = _batched("multi_margin_loss", input, target)
    count = scores.shape[1]
    if weight is not None and weight.ndim != 1:
        raise ValueError(f"multi_margin_loss: weight must be 1-d, got {tuple(weight.shape)}.")
    if weight is not None and tuple(weight.shape) != (count,):
        raise RuntimeError(
            f"multi_margin_loss: weight must have {count} elements, got {tuple(weight.shape)}."
        )
    index = reshape(classes, (-1, 1))
    lacking = clamp_min(scores - gather(scores, 1, index) + margin, 0)
    if p == 2:
        lacking = lacking * lacking
    if weight is not None:
        lacking = lacking * reshape(weight[classes], (-1, 1))
    # The target class itself does not count.
    others = index != wrap(namespace(input._array).arange(count))
    losses = sum(where(others, lacking, 0.0), 1) / count
    single = input.ndim == 1 or (input.ndim == 0 and target.ndim == 0)
    result = reduced(losses[0] if single else losses, name)
    return shown_as("MultiMarginLossBackward0", result)


def _batched(op: str, input: Any, target: Any) -> tuple[Any, Any]:
    """Scores as (batch, classes), targets as a vector."""
    if input.ndim > 2:
        raise RuntimeError(f"{op}: input must have at most 2 dimensions, got {tuple(input.shape)}.")
    scores = reshape(input, (-1, input.shape[-1] if input.ndim else 1))
    if target._array.size != scores.shape[0] or target.ndim > 1:
        raise RuntimeError(
            f"{op}: target of shape {tuple(target.shape)} does not fit input of shape "
            f"{tuple(input.shape)}."
        )
    return scores, reshape(target, (-1,))


def multilabel_margin_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """What each target class lacks of 1 above each class that is none.

    The targets of an example are listed first; -1 ends the list.

    >>> import pullback as torch
    >>> torch.nn.functional.multilabel_margin_loss(
    ...     torch.tensor([[0.1, 0.9]]), torch.tensor([[1, -1]])
    ... )
    tensor(0.1000)
    """
    name = reduction_of("multilabel_margin_loss", reduction, size_average, reduce)
    single = input.ndim < 2 and target.ndim < 2 and input._array.size == target._array.size == 1
    if input.ndim > 2 or not (single or tuple(input.shape) == tuple(target.shape)):
        raise RuntimeError(
            "multilabel_margin_loss: target must have the shape of input, in at most 2 "
            f"dimensions; got {tuple(input.shape)} and {tuple(target.shape)}."
        )
    count = input.shape[-1] if input.ndim else 1
    scores = reshape(input, (-1, count))
    listed = reshape(target, (-1, count))
    given = (listed < 0).cumsum(1) == 0
    named = (listed[:, :, None] == wrap(namespace(input._array).arange(count))) & given[:, :, None]
    chosen: Any = gather(scores, 1, masked_fill(listed, ~given, 0))
    lacking = clamp_min(scores[:, None, :] - chosen[:, :, None] + 1, 0)
    counts = given[:, :, None] & ~named.any(1)[:, None, :]
    losses = sum(where(counts, lacking, 0.0), (1, 2)) / count
    result = reduced(losses if input.ndim > 1 else losses[0], name)
    return shown_as("MultilabelMarginLossBackward0", result)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """The mean over the classes of `binary_cross_entropy_with_logits`.

    >>> import pullback as torch
    >>> torch.nn.functional.multilabel_soft_margin_loss(
    ...     torch.tensor([[0.0, 2.0]]), torch.tensor([[0.0, 1.0]])
    ... )
    tensor(0.4100)
    """
    name = reduction_of("multilabel_soft_margin_loss", reduction, size_average, reduce)
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    return reduced(mean(losses if weight is None else losses * weight, -1), name)
