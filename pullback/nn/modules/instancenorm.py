"""Norms over each instance, with running statistics if asked for."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn.modules.batchnorm import _LazyNormBase, _NormBase

__all__ = [
    *("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"),
    *("LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d"),
]


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

    def _get_no_batch_dim(self) -> int:
        """How many dimensions an input of one example has; libraries' subclasses ask."""
        return min(self._allowed)

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
    """Normalises the channels of each sequence.

    >>> import pullback as torch
    >>> torch.nn.InstanceNorm1d(2)(torch.randn(3, 2, 5)).shape
    torch.Size([3, 2, 5])
    """

    _allowed = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises the channels of each image.

    >>> import pullback as torch
    >>> torch.nn.InstanceNorm2d(2)(torch.randn(3, 2, 5, 5)).shape
    torch.Size([3, 2, 5, 5])
    """

    _allowed = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalises the channels of each volume.

    >>> import pullback as torch
    >>> torch.nn.InstanceNorm3d(2)(torch.randn(3, 2, 5, 5, 5)).shape
    torch.Size([3, 2, 5, 5, 5])
    """

    _allowed = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm1d that takes the number of channels from its first input.

    >>> import pullback as torch
    >>> torch.nn.LazyInstanceNorm1d()(torch.randn(1, 2, 5)).shape
    torch.Size([1, 2, 5])
    """

    cls_to_become = InstanceNorm1d
    _allowed = (2, 3)


class LazyInstanceNorm2d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm2d that takes the number of channels from its first input.

    >>> import pullback as torch
    >>> torch.nn.LazyInstanceNorm2d()(torch.randn(1, 2, 5, 5)).shape
    torch.Size([1, 2, 5, 5])
    """

    cls_to_become = InstanceNorm2d
    _allowed = (3, 4)


class LazyInstanceNorm3d(_LazyNormBase, _InstanceNorm):
    """InstanceNorm3d that takes the number of channels from its first input.

    >>> import pullback as torch
    >>> torch.nn.LazyInstanceNorm3d()(torch.randn(1, 2, 5, 5, 5)).shape
    torch.Size([1, 2, 5, 5, 5])
    """

    cls_to_become = InstanceNorm3d
    _allowed = (4, 5)
