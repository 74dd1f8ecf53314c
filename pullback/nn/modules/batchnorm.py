"""Norms over batch or instance, with running statistics."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback.core.dtype import DTYPES
from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn import init
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter
from pullback.operators.create.data import tensor
from pullback.operators.create.sizes import empty, ones, zeros

__all__ = [
    *("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d"),
    "InstanceNorm3d",
]


class _NormBase(Module):
    """Scale, shift and running statistics."""

    _version = 2
    _allowed: ClassVar[tuple[int, ...]]  # numbers of dimensions of the input

    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            value = Parameter(empty((num_features,), **made)) if wanted else None
            self.register_parameter(name, value)
        kept = track_running_stats
        self.register_buffer("running_mean", zeros(num_features, **made) if kept else None)
        self.register_buffer("running_var", ones(num_features, **made) if kept else None)
        count = tensor(0, dtype=DTYPES["int64"], device=device) if kept else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Forget what was seen."""
        if self.track_running_stats:
            assert self.running_mean is not None
            assert self.running_var is not None
            assert self.num_batches_tracked is not None
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, no statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self._allowed:
            allowed = " or ".join(f"{count}D" for count in self._allowed)
            raise ValueError(
                f"{type(self).__name__}: {allowed} input is needed, got shape {tuple(input.shape)}."
            )

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        # States of the first version had no count.
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats:
            count = self.num_batches_tracked
            state_dict.setdefault(
                prefix + "num_batches_tracked",
                count if count is not None else tensor(0, dtype=DTYPES["int64"]),
            )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Any:
        """Apply it; while training, take the statistics of this batch in."""
        self._check_input_dim(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the plain mean of all batches
                factor = 1.0 / float(self.num_batches_tracked)
        # Without statistics, those of the batch are used in evaluation too.
        of_batch = self.training or (self.running_mean is None and self.running_var is None)
        tracked = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if tracked else None,
            self.running_var if tracked else None,
            self.weight,
            self.bias,
            of_batch,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalises the channels of a batch of vectors or sequences.

    >>> import pullback as torch
    >>> torch.nn.BatchNorm1d(3)(torch.randn(8, 3)).mean(0).abs().max().item() < 1e-6
    True
    """

    _allowed = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises the channels of a batch of images."""

    _allowed = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises the channels of a batch of volumes."""

    _allowed = (5,)


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def forward(self, input: Tensor) -> Any:
        """Apply it, each example for itself."""
        self._check_input_dim(input)
        batched = input.ndim == max(self._allowed)
        channels = input.shape[1 if batched else 0]
        if channels != self.num_features and self.affine:
            raise ValueError(
                f"{type(self).__name__}: {self.num_features} channels are needed, got {channels}."
            )
        out = F.instance_norm(
            input if batched else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )
        return out if batched else out.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Normalises the channels of each sequence."""

    _allowed = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises the channels of each image."""

    _allowed = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalises the channels of each volume."""

    _allowed = (4, 5)
