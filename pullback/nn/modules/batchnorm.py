"""Norms over the batch, with running statistics."""

from __future__ import annotations

from typing import Any, ClassVar

from pullback.autograd.grad_mode import no_grad
from pullback.core.dtype import DTYPES
from pullback.core.tensor import Tensor
from pullback.nn import functional as F
from pullback.nn import init
from pullback.nn.base.weights import parameter_table, weight_and_bias
from pullback.nn.modules.lazy import LazyModuleMixin
from pullback.nn.modules.module import Module
from pullback.nn.parameter import Parameter, UninitializedBuffer, UninitializedParameter
from pullback.operators.create.data import tensor
from pullback.operators.create.sizes import empty, ones, zeros
from pullback.operators.shape.joining import cat

__all__ = [
    *("BatchNorm1d", "BatchNorm2d", "BatchNorm3d"),
    *("LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "SyncBatchNorm"),
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


_BUFFERS = frozenset(("running_mean", "running_var", "num_batches_tracked"))


def _factor(norm: Any) -> float:
    """How much this batch counts in the running statistics; while training it is counted."""
    factor = 0.0 if norm.momentum is None else norm.momentum
    if norm.training and norm.track_running_stats:
        table = parameter_table(norm, _BUFFERS, "_buffers")
        found = "num_batches_tracked" in table
        count = table["num_batches_tracked"] if found else norm.num_batches_tracked
        if count is not None:
            count.add_(1)
            if norm.momentum is None:  # the plain mean of all batches
                factor = 1.0 / float(count)
    return factor


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Any:
        """Apply it; while training, take the statistics of this batch in."""
        self._check_input_dim(input)
        factor = _factor(self)
        # Without statistics, those of the batch are used in evaluation too.
        table = parameter_table(self, _BUFFERS, "_buffers")
        mean, variance = [
            table[name] if name in table else getattr(self, name)
            for name in ("running_mean", "running_var")
        ]
        of_batch = self.training or (mean is None and variance is None)
        tracked = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            mean if tracked else None,
            variance if tracked else None,
            *weight_and_bias(self),
            of_batch,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalise each channel of vectors or sequences by its mean and variance over the batch.

    The formula and the arguments are those of `BatchNorm2d`.

    Shape:
        Input: (N, C) or (N, C, L). Output: that of the input.

    >>> import pullback as torch
    >>> torch.nn.BatchNorm1d(3)(torch.randn(8, 3)).mean(0).abs().max().item() < 1e-6
    True
    """

    _allowed = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalise each channel of images by its mean and variance over batch, height and width.

    `y = (x - mean) / sqrt(var + eps) * weight + bias`

    In training, mean and (biased) variance are those of the batch, and the running ones follow:
    `running = (1 - momentum) * running + momentum * batch`, with the unbiased variance. After
    `eval()` the running ones are used.

    Args:
        num_features: Number of channels, C.
        eps: Added to the variance, against division by zero.
        momentum: Weight of the batch in the running statistics; None averages over all batches.
        affine: Whether to learn `weight` (first 1) and `bias` (first 0) of each channel.
        track_running_stats: Whether to keep running statistics; without, those of the batch are
            used in evaluation too.
        device, dtype: Device and data type of parameters and statistics.

    Shape:
        Input: (N, C, H, W). Output: that of the input.

    >>> import pullback as torch
    >>> torch.nn.BatchNorm2d(3)(torch.randn(2, 3, 4, 4)).shape
    torch.Size([2, 3, 4, 4])
    """

    _allowed = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalise each channel of volumes by its mean and variance over the batch and the volume.

    The formula and the arguments are those of `BatchNorm2d`.

    Shape:
        Input: (N, C, D, H, W). Output: that of the input.

    >>> import pullback as torch
    >>> torch.nn.BatchNorm3d(3)(torch.randn(2, 3, 2, 2, 2)).shape
    torch.Size([2, 3, 2, 2, 2])
    """

    _allowed = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch norm over the batches of all processes; with one process, that of its own batch.

    >>> import pullback as torch
    >>> model = torch.nn.Sequential(torch.nn.BatchNorm2d(3))
    >>> type(torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)[0]).__name__
    'SyncBatchNorm'
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(
                f"SyncBatchNorm: 2 or more dimensions are needed, got {tuple(input.shape)}."
            )

    def forward(self, input: Tensor) -> Any:
        """Apply it; while training, take the statistics of this batch in."""
        if self.training and _processes(self.process_group) > 1:
            self._check_input_dim(input)
            return self._over_all_processes(input)
        return _BatchNorm.forward(self, input)  # `self` may be no module

    def _over_all_processes(self, input: Tensor) -> Any:
        """Normalise by the mean and variance of all processes' batches, which autograd follows."""
        import sys

        sum_over = sys.modules["pullback.distributed"].nn.functional.all_reduce
        factor = _factor(self)
        others = [dim for dim in range(input.ndim) if dim != 1]
        count = input.numel() // max(input.shape[1], 1)
        local = cat([input.sum(others), input.new_full((1,), float(count))])
        sums = sum_over(local, group=self.process_group)
        total = sums[-1].item()
        if total <= 1:
            raise ValueError(
                "SyncBatchNorm: more than 1 value per channel is needed while training, over all "
                f"processes; got shape {tuple(input.shape)} here."
            )
        shape = [1, -1, *(1 for _ in others[1:])]
        mean = sums[:-1] / total
        centred = input - mean.view(shape)
        variance = sum_over((centred * centred).sum(others), group=self.process_group) / total
        if self.track_running_stats and self.running_mean is not None:
            assert self.running_var is not None
            with no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
                unbiased = variance * (total / (total - 1))
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), factor)
        out = centred * (variance + self.eps).rsqrt().view(shape)
        if self.weight is not None:
            out = out * self.weight.view(shape)
        return out if self.bias is None else out + self.bias.view(shape)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Any:
        """The module with every batch norm in it replaced, on the same parameters and buffers."""
        made: Any = module
        if isinstance(module, _BatchNorm):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
            )
            if module.affine:
                made.weight, made.bias = module.weight, module.bias
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            made.training = module.training
            if hasattr(module, "qconfig"):
                made.qconfig = module.qconfig
        for name, child in module.named_children():
            made.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return made


def _processes(group: Any) -> int:
    """How many processes are in the group; one where nothing is distributed."""
    import sys

    distributed: Any = sys.modules.get("pullback.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size(group))


class _LazyNormBase(LazyModuleMixin, _NormBase):
    """The number of features is that of the first input's channels."""

    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        # No affine and no statistics yet, so that memory for them is not made twice.
        super().__init__(0, eps, momentum, False, False, device, dtype)
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.affine = affine
        self.track_running_stats = track_running_stats
        if affine:
            self.weight = UninitializedParameter(**made)
            if bias:
                self.bias = UninitializedParameter(**made)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**made)
            self.running_var = UninitializedBuffer(**made)
            self.num_batches_tracked = tensor(0, dtype=DTYPES["int64"], device=device)

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, no statistics, once they are there."""
        if not self.has_uninitialized_params() and self.num_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Take the channels of the input."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for one in (self.weight, self.bias, self.running_mean, self.running_var):
            if one is not None:
                one.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, _BatchNorm):
    """BatchNorm1d that takes the number of channels from its first input.

    >>> import pullback as torch
    >>> torch.nn.LazyBatchNorm1d()(torch.randn(4, 3)).shape
    torch.Size([4, 3])
    """

    cls_to_become = BatchNorm1d
    _allowed = (2, 3)


class LazyBatchNorm2d(_LazyNormBase, _BatchNorm):
    """BatchNorm2d that takes the number of channels from its first input.

    >>> import pullback as torch
    >>> torch.nn.LazyBatchNorm2d()(torch.randn(4, 3, 2, 2)).shape
    torch.Size([4, 3, 2, 2])
    """

    cls_to_become = BatchNorm2d
    _allowed = (4,)


class LazyBatchNorm3d(_LazyNormBase, _BatchNorm):
    """BatchNorm3d that takes the number of channels from its first input.

    >>> import pullback as torch
    >>> torch.nn.LazyBatchNorm3d()(torch.randn(4, 3, 2, 2, 2)).shape
    torch.Size([4, 3, 2, 2, 2])
    """

    cls_to_become = BatchNorm3d
    _allowed = (5,)
