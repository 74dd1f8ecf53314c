"""How linear_cross_entropy is to be computed, where there is a choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["LinearCrossEntropyOptions"]


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """Asks for pieces of the batch and for how they are added up; the results are the same.

    Here scores are computed in one piece, so that all settings but the defaults are refused when
    the loss is computed.

    >>> import pullback as torch
    >>> torch.nn.LinearCrossEntropyOptions().chunking_method
    'auto'
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None
