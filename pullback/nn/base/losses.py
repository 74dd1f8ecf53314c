"""What losses are made of: how they reduce, and weights of classes."""

from __future__ import annotations

import warnings
from typing import Any

from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.nn.base.fields import Layer
from pullback.nn.modules.module import Module


class _Loss(Layer):
    """Reduces to a mean, a sum or not at all."""

    _shown = ()

    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        Module.__init__(self)
        self.size_average, self.reduce, self.reduction = size_average, reduce, reduction
        self.__post_init__()

    def __post_init__(self) -> None:
        """The old pair of switches counts where it is given."""
        average, reduce = getattr(self, "size_average", None), getattr(self, "reduce", None)
        if average is None and reduce is None:
            return
        self.reduction = "none" if reduce is False else "sum" if average is False else "mean"
        warnings.warn(
            f"size_average and reduce are the old way; use reduction={self.reduction!r} instead.",
            UserWarning,
            stacklevel=stacklevel(),
        )

    def __setattr__(self, name: str, value: Any) -> None:
        # Weights of classes are buffers, so that they move with the module.
        if name in ("weight", "pos_weight") and name not in self._buffers:
            self._buffers[name] = None
        super().__setattr__(name, value)


class _WeightedLoss(_Loss):
    """Has weights of classes."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.weight = weight


class _Averaged(_Loss):
    """Takes first what says how to reduce: the old pair of switches, and `reduction`."""

    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"
