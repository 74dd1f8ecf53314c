"""Distances and similarities as modules."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.base.fields import Layer

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Layer):
    """Cosine similarity: the cosine of the angle between vectors.

    >>> import pullback as torch
    >>> torch.nn.CosineSimilarity()(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]]))
    tensor([0.7071])
    """

    dim: int = 1
    eps: float = 1e-8
    _shown = ()

    def forward(self, x1: Tensor, x2: Tensor) -> Any:
        """Apply it."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Layer):
    """The p-norm of the differences between vectors.

    >>> import pullback as torch
    >>> torch.nn.PairwiseDistance()(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """

    p: float = 2.0
    eps: float = 1e-6
    keepdim: bool = False
    _shown = ()

    def forward(self, x1: Tensor, x2: Tensor) -> Any:
        """Apply it."""
        return F.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)
