"""Norm layers as functions: layer, group, batch, instance, RMS and local response norm.

The arithmetic that they share is in `standardise.py`; here is what torch calls them and how each
chooses its dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy

from pullback.core.mode import changed, current, get_mode
from pullback.core.tensor import wrap
from pullback.core.version import bump
from pullback.operators.joining import cat
from pullback.operators.naming import shown_as
from pullback.operators.options import as_shape
from pullback.operators.powers import pow, rsqrt
from pullback.operators.reduction import mean
from pullback.operators.shape import reshape, unfold
from pullback.operators.standardise import (
    batch_standardise,
    inverse_deviation,
    layer_standardise,
)

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "native_batch_norm",
    "native_group_norm",
    "native_layer_norm",
    "rms_norm",
]


# Over the last dimensions -------------------------------------------------------------------------


def _last_dims(op: str, input: Any, normalized_shape: Any, *parameters: Any) -> tuple[int, ...]:
    """The dimensions that `normalized_shape` names, after checking that they are there."""
    if isinstance(normalized_shape, int):
        raise TypeError(
            f"{op}(): argument `normalized_shape` must be a sequence of ints, got the int "
            f"{normalized_shape}; write ({normalized_shape},)."
        )
    wanted = as_shape(normalized_shape, 0, op)
    if not wanted:
        raise RuntimeError(f"{op}: normalized_shape is empty; name at least the last size.")
    shape = tuple(input.shape)
    if shape[-len(wanted) :] != wanted:
        raise RuntimeError(
            f"{op}: normalized_shape {wanted} must be the last sizes of input, whose shape is "
            f"{shape}."
        )
    for name, value in zip(("weight", "bias"), parameters, strict=False):
        if value is not None and (value.shape != wanted or value.dtype != input.dtype):
            raise RuntimeError(
                f"{op}: {name} must have normalized_shape {wanted} and the dtype of input, "
                f"{input.dtype}; got shape {tuple(value.shape)} and {value.dtype}."
            )
    return tuple(range(len(shape) - len(wanted), len(shape)))


def native_layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> Any:
    """`layer_norm` together with the mean and the inverse deviation that it used."""
    dims = _last_dims("layer_norm", input, normalized_shape, weight, bias)
    out = layer_standardise(input, weight, bias, dims, eps, True)
    return out, *_statistics(input.detach(), dims, eps)  # no gradient goes there, as in torch


def _statistics(input: Any, dims: tuple[int, ...], eps: float) -> tuple[Any, Any]:
    """Mean and inverse deviation."""
    return mean(input, dims, keepdim=True), inverse_deviation(input, dims, eps, True)


def layer_norm(
    input: Any,
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,  # torch's; nothing to choose here
) -> Any:
    """Give the last dimensions mean 0 and variance 1, then scale by `weight` and shift by `bias`.

    >>> import pullback as torch
    >>> torch.nn.functional.layer_norm(torch.tensor([[1.0, 3.0]]), (2,))
    tensor([[-1.0000,  1.0000]])
    """
    dims = _last_dims("layer_norm", input, normalized_shape, weight, bias)
    return layer_standardise(input, weight, bias, dims, eps, True)


def rms_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Any:
    """Divide by the root of the mean square over the last dimensions, then scale by `weight`."""
    dims = _last_dims("rms_norm", input, normalized_shape, weight)
    dtype = input._array.dtype
    if eps is None:
        eps = numpy.finfo(numpy.float64 if dtype.char in "dD" else numpy.float32).eps.item()
    if dtype.kind == "c":
        scaled = input * rsqrt(mean(input * input, dims, keepdim=True) + eps)
        return scaled if weight is None else scaled * weight
    return layer_standardise(input, weight, None, dims, eps, False)


# Over groups of channels --------------------------------------------------------------------------


def native_group_norm(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> Any:
    """`group_norm` together with the mean and inverse deviation of each group."""
    grouped = reshape(input, (N, group, C // group, HxW))
    stats = [reshape(stat, (N, group)) for stat in _statistics(grouped, (2, 3), eps)]
    return group_norm(input, group, weight, bias, eps), *stats


def group_norm(
    input: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,  # torch's; nothing to choose here
) -> Any:
    """Give each of `num_groups` groups of channels of each example mean 0 and variance 1."""
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise RuntimeError(f"group_norm: needs at least 2 dimensions, got shape {shape}.")
    if num_groups <= 0 or shape[1] % num_groups:
        raise RuntimeError(
            f"group_norm: the {shape[1]} channels of shape {shape} do not divide into {num_groups} "
            "groups."
        )
    _check_channels("group_norm", shape[1], weight=weight, bias=bias)
    size = math.prod(shape[2:])
    if size * shape[0] * shape[1] // num_groups == 1:
        raise ValueError(
            f"group_norm: one value per group has no deviation; got shape {shape} and {num_groups} "
            "groups."
        )
    grouped = reshape(input, (shape[0], num_groups, shape[1] // num_groups, size))
    each = (num_groups, shape[1] // num_groups, 1)
    scale = None if weight is None else reshape(weight, each)
    shift = None if bias is None else reshape(bias, each)
    result = reshape(layer_standardise(grouped, scale, shift, (2, 3), eps, True), shape)
    return shown_as("NativeGroupNormBackward0", result)


def _by_channel(value: Any, ndim: int) -> Any:
    """One value for each channel, shaped to broadcast against (batch, channels, ...)."""
    return value if value is None or ndim == 2 else reshape(value, (-1,) + (1,) * (ndim - 2))


def _check_channels(op: str, channels: int, **parameters: Any) -> None:
    for name, value in parameters.items():
        if value is not None and tuple(value.shape) != (channels,):
            raise RuntimeError(
                f"{op}: {name} must have one element for each of the {channels} channels, got "
                f"shape {tuple(value.shape)}."
            )


# Over the batch -----------------------------------------------------------------------------------


def native_batch_norm(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """`batch_norm` together with the mean and inverse deviation of each channel (of this batch)."""
    shape = tuple(input.shape)
    scale, shift = _by_channel(weight, len(shape)), _by_channel(bias, len(shape))
    if not training:
        empty = wrap(numpy.empty(0, input._array.dtype))
        out = _with_statistics(
            input,
            scale,
            shift,
            _by_channel(running_mean, len(shape)),
            _by_channel(running_var, len(shape)),
            eps,
        )
        return out, empty, empty
    dims = (0, *range(2, len(shape)))
    out = batch_standardise(input, scale, shift, dims, eps, True)
    mean_, rstd = (reshape(stat, (shape[1],)) for stat in _statistics(input.detach(), dims, eps))
    _update(running_mean, mean_, momentum)
    _update_variance(running_var, rstd, eps, math.prod(shape[d] for d in dims), momentum)
    return out, mean_, rstd


def _with_statistics(
    input: Any, scale: Any, shift: Any, mean_: Any, variance: Any, eps: float
) -> Any:
    """Standardise by a given mean and variance, in one product and one sum."""
    factor: Any = rsqrt(variance + eps)
    factor = factor if scale is None else factor * scale
    offset = mean_ * -factor
    result = input * factor + (offset if shift is None else shift + offset)
    return shown_as("NativeBatchNormBackward0", result)


def _update(running: Any, value: Any, momentum: float) -> None:
    """Move a running statistic towards the batch's, in place and unseen by autograd."""
    if running is None:
        return
    mode = get_mode()
    if mode.levels:  # refuses to write what differs between examples to what they share
        current.set(changed(mode, grad=False))
        try:
            running.copy_(running * (1 - momentum) + momentum * value)
        finally:
            current.set(mode)
        return
    array = running._array
    array *= 1 - momentum
    array += momentum * value._array.astype(array.dtype)
    bump(running, "batch_norm")


def _update_variance(running: Any, rstd: Any, eps: float, count: int, momentum: float) -> None:
    if running is not None:
        variance = (1 / (rstd * rstd) - eps) * (count / max(count - 1, 1))
        _update(running, variance, momentum)


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Give each channel mean 0 and variance 1, over the batch or by running statistics.

    In training the statistics are the batch's, and the running ones are moved towards them.
    """
    shape = tuple(input.shape)
    if len(shape) < 2:
        raise RuntimeError(f"batch_norm: needs at least 2 dimensions, got shape {shape}.")
    if training and math.prod(shape[2:]) * shape[0] == 1:
        raise ValueError(
            f"batch_norm: more than one value per channel is needed in training, got shape {shape}."
        )
    for name, value in (("running_mean", running_mean), ("running_var", running_var)):
        if value is None and not training:
            raise RuntimeError(f"batch_norm: {name} must be given when training=False.")
    _check_channels(
        "batch_norm",
        shape[1],
        running_mean=running_mean,
        running_var=running_var,
        weight=weight,
        bias=bias,
    )
    if training and running_mean is None and running_var is None:
        dims = (0, *range(2, len(shape)))
        scale, shift = _by_channel(weight, len(shape)), _by_channel(bias, len(shape))
        return batch_standardise(input, scale, shift, dims, eps, True)
    made = native_batch_norm(
        input, weight, bias, running_mean, running_var, training, momentum, eps
    )
    return made[0]


def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    """Give each channel of each example mean 0 and variance 1."""
    shape = tuple(input.shape)
    if use_input_stats and math.prod(shape[2:]) == 1:
        raise ValueError(
            f"instance_norm: more than one value per channel is needed, got shape {shape}."
        )
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    _check_channels(
        "instance_norm",
        shape[1],
        running_mean=running_mean,
        running_var=running_var,
        weight=weight,
        bias=bias,
    )
    scale, shift = _by_channel(weight, len(shape)), _by_channel(bias, len(shape))
    dims = tuple(range(2, len(shape)))
    if running_mean is not None or running_var is not None:
        mean_, rstd = (reshape(one, shape[:2]) for one in _statistics(input.detach(), dims, eps))
        _update(running_mean, mean(mean_, 0), momentum)
        count = math.prod(shape[2:])
        # The mean over the batch of what each example's deviation says.
        each_var = 1 / (rstd * rstd)
        _update_variance(running_var, rsqrt(mean(each_var, 0)), eps, count, momentum)
    return layer_standardise(input, scale, shift, dims, eps, True)


def local_response_norm(
    input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Any:
    """Divide by `(k + alpha * mean of squares) ** beta`, over `size` neighbouring channels."""
    shape = tuple(input.shape)
    if len(shape) < 3:
        raise ValueError(f"local_response_norm: needs at least 3 dimensions, got shape {shape}.")
    if not input._array.size:
        return input
    before, after = size // 2, (size - 1) // 2
    zeros = wrap(numpy.zeros((shape[0], 1, *shape[2:]), input._array.dtype))
    squares = cat([*[zeros] * before, input * input, *[zeros] * after], 1)
    near = mean(unfold(squares, 1, size, 1), -1)
    return input / pow(near * alpha + k, beta)
