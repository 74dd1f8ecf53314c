"""Losses that keep a margin: between classes, labels, or the members of pairs and triplets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.losses import _Averaged, _Loss, _WeightedLoss
from pullback.nn.modules.distance import PairwiseDistance

__all__ = [
    "CosineEmbeddingLoss",
    "HingeEmbeddingLoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class HingeEmbeddingLoss(_Loss):
    """Small distances for pairs with target 1, at least `margin` for target -1.

    >>> import pullback as torch
    >>> torch.nn.HingeEmbeddingLoss()(torch.tensor([0.5, 0.5]), torch.tensor([1.0, -1.0]))
    tensor(0.5000)
    """

    margin: float = 1.0
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MultiLabelMarginLoss(_Averaged):
    """Multi-label margin loss: target classes above all others by a margin of 1.

    >>> import pullback as torch
    >>> torch.nn.MultiLabelMarginLoss()(torch.tensor([[0.1, 0.9]]), torch.tensor([[1, -1]]))
    tensor(0.1000)
    """

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class SoftMarginLoss(_Averaged):
    """Logistic loss of two classes, 1 and -1.

    >>> import pullback as torch
    >>> torch.nn.SoftMarginLoss()(torch.tensor([0.0, 2.0]), torch.tensor([1.0, 1.0]))
    tensor(0.4100)
    """

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Multi-label logistic loss: binary cross entropy of each class, averaged.

    >>> import pullback as torch
    >>> torch.nn.MultiLabelSoftMarginLoss()(torch.tensor([[0.0, 2.0]]), torch.tensor([[0.0, 1.0]]))
    tensor(0.4100)
    """

    weight: Tensor | None = None
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class CosineEmbeddingLoss(_Loss):
    """Cosine similarity near 1 for pairs with target 1, below `margin` for target -1.

    >>> import pullback as torch
    >>> torch.nn.CosineEmbeddingLoss()(
    ...     torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]]), torch.tensor([1.0])
    ... )
    tensor(1.)
    """

    margin: float = 0.0
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MarginRankingLoss(_Loss):
    """Rank `input1` above `input2` by `margin` where the target is 1, below where it is -1.

    >>> import pullback as torch
    >>> torch.nn.MarginRankingLoss()(torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([1.0]))
    tensor(2.)
    """

    margin: float = 0.0
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """Multi-class hinge loss: the target class above the others by `margin`.

    >>> import pullback as torch
    >>> torch.nn.MultiMarginLoss()(torch.tensor([[0.1, 0.9]]), torch.tensor([0]))
    tensor(0.9000)
    """

    p: int = 1
    margin: float = 1.0
    weight: Tensor | None = None
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"

    def forward(self, input: Tensor, target: Tensor) -> Any:
        """The loss."""
        return F.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


class TripletMarginLoss(_Loss):
    """Triplet loss: the positive nearer to the anchor than the negative by `margin`.

    >>> import pullback as torch
    >>> torch.nn.TripletMarginLoss()(
    ...     torch.tensor([[0.0]]), torch.tensor([[1.0]]), torch.tensor([[1.5]])
    ... )
    tensor(0.5000)
    """

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Any:
        """The loss."""
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """As TripletMarginLoss, with a distance of your own.

    >>> import pullback as torch
    >>> loss = torch.nn.TripletMarginWithDistanceLoss(distance_function=torch.nn.PairwiseDistance())
    >>> loss(torch.tensor([[0.0]]), torch.tensor([[1.0]]), torch.tensor([[1.5]]))
    tensor(0.5000)
    """

    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"
    _by_keyword = ("distance_function", "margin", "swap", "reduction")

    def __post_init__(self) -> None:
        """The usual distance unless another is given."""
        if self.distance_function is None:
            self.distance_function = PairwiseDistance()

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Any:
        """The loss."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
