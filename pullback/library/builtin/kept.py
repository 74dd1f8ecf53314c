"""Operators of graphs that give what their gradients need beside their result; and those gradients.

Each stands with the schema that torch gives it, as those of backward.py do.
"""

from __future__ import annotations

from typing import Any

import pullback
from pullback.library.builtin.losses import REDUCTIONS
from pullback.library.builtin.table import Table

__all__ = ["KEPT"]

KEPT = Table()
_aten = KEPT.enter
_STATS = "Tensor input, Tensor? weight, Tensor? bias"


def _along(values: Any, ndim: int) -> Any:
    """A value for each channel, to be broadcast."""
    return values.reshape((1, -1) + (1,) * (ndim - 2))


# Batch norm ---------------------------------------------------------------------------------------


def _normed(x: Any, weight: Any, bias: Any, mean: Any, scale: Any) -> Any:
    y = (x - _along(mean, x.ndim)) * _along(scale, x.ndim)
    y = y if weight is None else y * _along(weight, x.ndim)
    return y if bias is None else y + _along(bias, x.ndim)


def _of_batch(x: Any, eps: float) -> tuple[Any, Any, Any]:
    """Mean, unbiased variance, and one over the deviation, of each channel."""
    dims = [0, *range(2, x.ndim)]
    scale = (x.var(dims, correction=0) + eps).rsqrt()
    return x.mean(dims), x.var(dims, correction=1), scale


@_aten(
    f"_native_batch_norm_legit_functional({_STATS}, Tensor running_mean, Tensor running_var, bool "
    "training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, "
    "Tensor running_var_out)"
)
def _functional(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not training:
        none = x.new_zeros((0,))
        out = _normed(x, weight, bias, mean, (var + eps).rsqrt())
        return out, none, none, mean.clone(), var.clone()
    batch_mean, batch_var, scale = _of_batch(x, eps)
    out = _normed(x, weight, bias, batch_mean, scale)
    new_mean = mean * (1 - momentum) + batch_mean.detach() * momentum
    new_var = var * (1 - momentum) + batch_var.detach() * momentum
    return out, batch_mean, scale, new_mean, new_var


@_aten(
    f"_native_batch_norm_legit({_STATS}, Tensor(a!) running_mean, Tensor(b!) running_var, bool "
    "training, float momentum, float eps) -> (Tensor, Tensor, Tensor)"
)
def _legit(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    made = _functional(x, weight, bias, mean, var, training, momentum, eps)
    if training:
        with pullback.no_grad():
            mean.copy_(made[3])
            var.copy_(made[4])
    return made[:3]


@_aten(
    f"_native_batch_norm_legit.no_stats({_STATS}, bool training, float momentum, float eps) "
    "-> (Tensor, Tensor, Tensor)"
)
def _without_stats(
    x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> Any:
    batch_mean, _, scale = _of_batch(x, eps)
    return _normed(x, weight, bias, batch_mean, scale), batch_mean, scale


@_aten(
    f"_native_batch_norm_legit_no_training({_STATS}, Tensor running_mean, Tensor running_var, "
    "float momentum, float eps) -> (Tensor, Tensor, Tensor)"
)
def _without_training(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Any:
    return _functional(x, weight, bias, mean, var, False, momentum, eps)[:3]


@_aten(
    "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? "
    "running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, float "
    "eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)"
)
def _batch_norm_backward(
    g: Any, x: Any, weight: Any, mean: Any, var: Any, save_mean: Any, save_invstd: Any, train: bool,
    eps: float, mask: Any,
) -> Any:  # fmt: skip
    dims = [0, *range(2, x.ndim)]
    center, scale = (save_mean, save_invstd) if train else (mean, (var + eps).rsqrt())
    y = (x - _along(center, x.ndim)) * _along(scale, x.ndim)
    inner = g
    if train:
        inner = g - g.mean(dims, keepdim=True) - y * (g * y).mean(dims, keepdim=True)
    scaled = scale if weight is None else scale * weight
    return (
        inner * _along(scaled, x.ndim) if mask[0] else None,
        (g * y).sum(dims) if mask[1] else None,
        g.sum(dims) if mask[2] else None,
    )


@_aten(
    "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? "
    "weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) "
    "-> (Tensor, Tensor, Tensor)"
)
def _group_norm_backward(
    g: Any, x: Any, mean: Any, rstd: Any, weight: Any, n: int, c: int, hxw: int, group: int,
    mask: Any,
) -> Any:  # fmt: skip
    parts = (n, group, c // group, hxw)
    scale = rstd.reshape(n, group, 1, 1)
    y = (x.reshape(parts) - mean.reshape(n, group, 1, 1)) * scale
    scaled = g if weight is None else g * _along(weight, g.ndim)
    inner = scaled.reshape(parts)
    inner = inner - inner.mean((2, 3), keepdim=True) - y * (inner * y).mean((2, 3), keepdim=True)
    by_channel = g.reshape(n, c, hxw)
    return (
        (inner * scale).reshape(x.shape) if mask[0] else None,
        (by_channel * y.reshape(n, c, hxw)).sum((0, 2)) if mask[1] else None,
        by_channel.sum((0, 2)) if mask[2] else None,
    )


# Others -------------------------------------------------------------------------------------------

_WEIGHED = "Tensor self, Tensor target, Tensor? weight, int reduction, SymInt ignore_index"


@_aten(f"nll_loss2d_forward({_WEIGHED}) -> (Tensor output, Tensor total_weight)")
def _nll2d(x: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    loss = pullback.nn.functional.nll_loss
    how = REDUCTIONS[reduction]
    output = loss(x, target, weight, ignore_index=ignore_index, reduction=how)
    if reduction == 0:
        return output, x.new_zeros(())
    counted = target != ignore_index
    if weight is None:
        return output, counted.sum().to(x.dtype)
    at = pullback.where(counted, target, pullback.zeros_like(target))
    return output, (weight[at] * counted).sum()


@_aten(f"nll_loss2d_backward(Tensor grad_output, {_WEIGHED}, Tensor total_weight) -> Tensor")
def _nll2d_backward(
    g: Any, x: Any, target: Any, weight: Any, reduction: int, ignore_index: int, total: Any
) -> Any:
    loss, how = pullback.nn.functional.nll_loss, REDUCTIONS[reduction]
    pull = pullback.func.vjp(
        lambda x: loss(x, target, weight, ignore_index=ignore_index, reduction=how), x
    )[1]
    return pull(g)[0]


@_aten(
    "max_pool3d_with_indices_backward(Tensor grad_output, Tensor self, int[3] kernel_size, int[3] "
    "stride, int[3] padding, int[3] dilation, bool ceil_mode, Tensor indices) -> Tensor"
)
def _max_pool3d(g: Any, x: Any, *options_and_indices: Any) -> Any:
    indices = options_and_indices[-1]
    flat = x.new_zeros(x.shape).flatten(-3)
    return flat.scatter_add(-1, indices.flatten(-3), g.flatten(-3)).reshape(x.shape)


@_aten(
    "value_selecting_reduction_backward(Tensor grad, int dim, Tensor indices, SymInt[] sizes, bool "
    "keepdim) -> Tensor"
)
def _selected(g: Any, dim: int, indices: Any, sizes: Any, keepdim: bool) -> Any:
    if not keepdim and len(sizes):
        g, indices = g.unsqueeze(dim), indices.unsqueeze(dim)
    return g.new_zeros(tuple(sizes)).scatter(dim, indices, g)


@_aten(
    "grid_sampler_2d_backward(Tensor grad_output, Tensor input, Tensor grid, int "
    "interpolation_mode, int padding_mode, bool align_corners, bool[2] output_mask) "
    "-> (Tensor, Tensor)"
)
def _grid_sampler(
    g: Any, x: Any, grid: Any, mode: int, padding: int, corners: bool, mask: Any
) -> Any:
    modes = ("bilinear", "nearest", "bicubic")
    paddings = ("zeros", "border", "reflection")

    def sampled(x: Any, grid: Any) -> Any:
        sample = pullback.nn.functional.grid_sample
        return sample(x, grid, modes[mode], paddings[padding], corners)

    of_input, of_grid = pullback.func.vjp(sampled, x, grid)[1](g)
    return of_input if mask[0] else None, of_grid if mask[1] else None


@_aten(
    "im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) "
    "-> Tensor"
)
def _im2col(x: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Any:
    sizes = [tuple(one) for one in (kernel_size, dilation, padding, stride)]
    return pullback.nn.functional.unfold(x, *sizes)
