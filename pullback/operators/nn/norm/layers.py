"""Norm layers as functions: layer, group, batch, instance, RMS and local response norm.

The arithmetic that they share is in `standardise.py`; here is what torch calls them and how each
chooses its dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy

from pullback.core.arrays import F32
from pullback.core.dtype import OF_NUMBERS, from_numpy_dtype
from pullback.core.errors import unsupported
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor
from pullback.operators.nn.norm.layout import Over
from pullback.operators.nn.norm.running import (
    batch_statistics,
    follow,
    given_standardise,
    move,
    move_variance,
    plain_statistics,
)
from pullback.operators.nn.norm.standardise import (
    batch_standardise,
    group_standardise,
    inverse_deviation,
    layer_standardise,
)
from pullback.operators.options import as_shape
from pullback.operators.pointwise.powers import pow, rsqrt
from pullback.operators.reduce.sums import mean
from pullback.operators.shape.joining import cat
from pullback.operators.shape.reshaping import reshape, unfold
from pullback.operators.tensor.convert import astype

FOUND_IN = {
    "torch": """
        group_norm layer_norm native_batch_norm native_group_norm native_layer_norm rms_norm
    """,
    "nn.functional": "batch_norm group_norm instance_norm layer_norm local_response_norm rms_norm",
}


# Over the last dimensions -------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def _over(first: int, end: int, eps: float, centred: bool) -> Over:
    """All dimensions from `first` up to, but without, `end`."""
    return Over(tuple(range(first, end)), eps, centred)


@lru_cache(maxsize=1024)
def _over_batch(ndim: int, eps: float) -> Over:
    """All dimensions but that of the channels."""
    return Over((0, *range(2, ndim)), eps, channel=1)


@lru_cache(maxsize=1024)
def _over_groups(ndim: int, eps: float, groups: int | None) -> Over:
    """Within each example and group, or channel: (batch, groups, channels of a group, ...)."""
    extra = groups is not None
    return Over(tuple(range(2, ndim + extra)), eps, channel=1, groups=groups)


def _over_last(
    op: str, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float, centred: bool
) -> Over:
    """The dimensions that `normalized_shape` names, after checking that they are there."""
    array = input._array
    shape, dtype, ndim = array.shape, array.dtype, array.ndim
    if isinstance(normalized_shape, tuple) and normalized_shape:
        first = ndim - len(normalized_shape)
        a = None if weight is None else weight._array
        b = None if bias is None else bias._array
        if (
            first >= 0
            and shape[first:] == normalized_shape
            and type(normalized_shape[0]) is int
            and (a is None or (a.dtype is dtype and a.shape == normalized_shape))
            and (b is None or (b.dtype is dtype and b.shape == normalized_shape))
        ):
            return _over(first, ndim, eps, centred)
    wanted = _checked_shape(op, normalized_shape, shape)
    given = [one._array.dtype for one in (weight, bias) if one is not None]
    single = array.dtype.itemsize == 2 and all(dtype is F32 for dtype in given)
    for name, value in (("weight", weight), ("bias", bias)):
        if value is None:
            continue
        if value.shape != wanted or (value._array.dtype != array.dtype and not single):
            raise RuntimeError(
                f"{op}: {name} must have normalized_shape {wanted} and the dtype of input, "
                f"{input.dtype}; got shape {tuple(value.shape)} and {value.dtype}."
            )
    return _over(len(shape) - len(wanted), len(shape), eps, centred)


def _checked_shape(op: str, normalized_shape: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(normalized_shape, int | Tensor):
        raise TypeError(
            f"{op}(): argument `normalized_shape` must be a sequence of ints, got "
            f"{normalized_shape!r}; write ({normalized_shape},) for a single int."
        )
    wanted = as_shape(normalized_shape, 0, op)
    if not wanted:
        raise RuntimeError(f"{op}: normalized_shape is empty; name at least the last size.")
    if shape[-len(wanted) :] != wanted:
        raise RuntimeError(
            f"{op}: normalized_shape {wanted} must be the last sizes of input, whose shape is "
            f"{shape}."
        )
    return wanted


def native_layer_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any, bias: Any, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`layer_norm` together with the mean and the inverse deviation that it used.

    >>> import pullback as torch
    >>> torch.native_layer_norm(torch.tensor([1.0, 3.0]), [2], None, None, 1e-5)[0]
    tensor([-1.0000,  1.0000])
    """
    over = _over_last("layer_norm", input, normalized_shape, weight, bias, eps, True)
    out = layer_standardise(input, weight, bias, over)
    return out, *_statistics(input.detach(), over)  # no gradient goes there, as in torch


def _statistics(input: Any, over: Over) -> tuple[Any, Any]:
    """Mean and inverse deviation."""
    return mean(input, over.dims, keepdim=True), inverse_deviation(input, over)


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
    over = _over_last("layer_norm", input, normalized_shape, weight, bias, eps, True)
    return layer_standardise(input, weight, bias, over)


# What rms_norm adds where no eps is given, by the dtype it computes in.
_LEAST = {char: numpy.finfo(char).eps.item() for char in "fd"}


def rms_norm(
    input: Any, normalized_shape: Sequence[int], weight: Any = None, eps: float | None = None
) -> Any:
    """Divide by the root of the mean square over the last dimensions, then scale by `weight`.

    >>> import pullback as torch
    >>> torch.rms_norm(torch.tensor([3.0, 4.0]), (2,))
    tensor([0.8485, 1.1314])
    """
    dtype = input._array.dtype
    if eps is None and dtype.char == OF_NUMBERS:
        eps = 0  # numbers of another type need no help against rounding
    elif eps is None:
        eps = _LEAST["d" if dtype.char in "dD" else "f"]
    if dtype.kind not in "fVc":
        raise unsupported("rms_norm", input._array)
    if weight is not None and weight._array.dtype != dtype:
        weight = astype(weight, dtype)
    over = _over_last("rms_norm", input, normalized_shape, weight, None, eps, False)
    # By operators that torch has too, for who takes operators; half precision is rounded once.
    if dtype.kind == "c" or (dtype.char in "fd" and get_mode().dispatch):
        scaled = input * rsqrt(mean(input * input, over.dims, keepdim=True) + eps)
        return scaled if weight is None else scaled * weight
    return layer_standardise(input, weight, None, over)


# Over groups of channels --------------------------------------------------------------------------


def native_group_norm(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """`group_norm` together with the mean and inverse deviation of each group.

    >>> import pullback as torch
    >>> torch.native_group_norm(torch.tensor([[1.0, 3.0]]), None, None, 1, 2, 1, 1, 1e-5)[0]
    tensor([[-1.0000,  1.0000]])
    """
    if not isinstance(group, int) or group < 1:
        raise RuntimeError(f"native_group_norm: group must be a positive int, got {group!r}.")
    grouped = reshape(input, (N, group, C // group, HxW))
    stats = [reshape(stat, (N, group)) for stat in _statistics(grouped, _over(2, 4, eps, True))]
    return group_norm(input, group, weight, bias, eps), *stats


def group_norm(
    input: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,  # torch's; nothing to choose here
) -> Any:
    """Give each of `num_groups` groups of channels of each example mean 0 and variance 1.

    >>> import pullback as torch
    >>> torch.group_norm(torch.tensor([[1.0, 3.0, 10.0, 30.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    shape = input._array.shape
    if type(num_groups) is not int:
        raise TypeError(f"group_norm(): argument `num_groups` must be int, got {num_groups!r}.")
    if len(shape) < 2:
        raise RuntimeError(f"group_norm: needs at least 2 dimensions, got shape {shape}.")
    if num_groups <= 0 or shape[1] % num_groups:
        raise RuntimeError(
            f"group_norm: the {shape[1]} channels of shape {shape} do not divide into {num_groups} "
            "groups."
        )
    _check_channels("group_norm", input._array, weight, bias)
    if input._array.size == num_groups:
        raise ValueError(
            f"group_norm: one value per group has no deviation; got shape {shape} and {num_groups} "
            "groups."
        )
    if not input._array.size:  # nothing to standardise; weight and bias get zeros
        row = (1, -1) + (1,) * (len(shape) - 2)
        made = input * 1 if weight is None else input * weight.reshape(row)
        return made if bias is None else made + bias.reshape(row)
    return group_standardise(input, weight, bias, _over_groups(len(shape), eps, num_groups))


_PARAMETERS = "weight", "bias", "running_mean", "running_var"


def _check_channels(op: str, array: Any, *parameters: Any) -> None:
    """Refuse parameters that are not one element for each channel, of the input's dtype.

    Those of half precision may all be float32.
    """
    shape, dtype = array.shape[1:2], array.dtype
    for value in parameters:
        if value is not None:
            given = value._array
            if given.dtype is not dtype or given.shape != shape:
                _refuse_channels(op, array, parameters)


def _refuse_channels(op: str, array: Any, parameters: tuple[Any, ...]) -> None:
    """The error; none where all are float32 beside half precision."""
    channels, wanted = array.shape[1], array.dtype
    for name, value in zip(_PARAMETERS, parameters, strict=False):
        if value is None:
            continue
        if value._array.shape != (channels,):
            raise RuntimeError(
                f"{op}: {name} must have one element for each of the {channels} channels, got "
                f"shape {tuple(value.shape)}."
            )
        if value._array.dtype != wanted:
            if wanted.itemsize == 2 and wanted is array.dtype and value._array.dtype is F32:
                wanted = F32
                continue
            raise RuntimeError(
                f"{op}: {name} is {value.dtype}, but all parameters must have the dtype of input, "
                f"{from_numpy_dtype(array.dtype)} (or all be float32, where that is half "
                "precision); convert it."
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
) -> tuple[Tensor, Tensor, Tensor]:
    """`batch_norm` together with the mean and inverse deviation of each channel (of this batch).

    >>> import pullback as torch
    >>> x = torch.tensor([[1.0], [3.0]])
    >>> torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[0]
    tensor([[-1.0000],
            [ 1.0000]])
    """
    shape = input._array.shape
    if not training:
        empty = input.new_empty((0,))
        out = given_standardise(input, weight, bias, running_mean, running_var, eps)
        return out, empty, empty
    over = _over_batch(len(shape), eps)
    out = batch_standardise(input, weight, bias, over)
    mean_, rstd = batch_statistics(input, over)
    move(running_mean, mean_, momentum)
    count = input._array.size // max(shape[1], 1)
    move_variance(running_var, rstd, eps, count, momentum)
    return out, mean_, rstd


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

    >>> import pullback as torch
    >>> torch.nn.functional.batch_norm(torch.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    shape = input._array.shape
    if training and len(shape) > 1 and input._array.size == shape[1] and 0 not in shape:
        raise ValueError(
            f"batch_norm: more than one value per channel is needed in training, got shape {shape}."
        )
    return batch_normed(input, weight, bias, running_mean, running_var, training, momentum, eps)


def batch_normed(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    """`batch_norm` of any number of values in a channel."""
    shape = input._array.shape
    if shape == (0,):  # nothing, without channels
        return input.clone()
    if len(shape) < 2:
        raise RuntimeError(f"batch_norm: needs at least 2 dimensions, got shape {shape}.")
    if not training and (running_mean is None or running_var is None):
        name = "running_mean" if running_mean is None else "running_var"
        raise RuntimeError(f"batch_norm: {name} must be given when training=False.")
    if (running_mean is None) != (running_var is None):
        raise ValueError("batch_norm: running_mean and running_var go together; give both or none.")
    if 0 in shape and _is_mixed(input, weight, bias, running_mean, running_var):
        return _of_nothing(input, weight, bias)
    if input._array.dtype.kind not in "fV":
        raise unsupported("batch_norm", input._array)
    _check_channels("batch_norm", input._array, weight, bias, running_mean, running_var)
    if training and running_mean is None and running_var is None:
        return batch_standardise(input, weight, bias, _over_batch(len(shape), eps))
    if not training:
        return given_standardise(input, weight, bias, running_mean, running_var, eps)
    over = _over_batch(len(shape), eps)
    known = plain_statistics(input, over)
    if known is None:
        return native_batch_norm(
            input, weight, bias, running_mean, running_var, training, momentum, eps
        )[0]
    out = batch_standardise(input, weight, bias, over, known)
    count = shape[0] * math.prod(shape[2:])  # of sizes, which a capture for all of them remembers
    follow(known, running_mean, running_var, count, momentum)
    return out


def _is_mixed(input: Any, *parameters: Any) -> bool:
    return any(one is not None and one.dtype is not input.dtype for one in parameters)


def _of_nothing(input: Any, weight: Any, bias: Any) -> Any:
    """No element is computed, so dtypes need not agree: as torch, promoted as by a number."""
    out = input.clone()
    if weight is not None and len(weight):
        out = out * weight[0]
    return out + bias[0] if bias is not None and len(bias) else out


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
    """Give each channel of each example mean 0 and variance 1.

    >>> import pullback as torch
    >>> torch.nn.functional.instance_norm(torch.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    shape = tuple(input.shape)
    if use_input_stats and math.prod(shape[2:]) == 1:
        raise ValueError(
            f"instance_norm: more than one value per channel is needed, got shape {shape}."
        )
    return instance_normed(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps
    )


def instance_normed(
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
) -> Any:
    """`instance_norm` of any number of values in a channel."""
    shape = tuple(input.shape)
    if not use_input_stats:
        return batch_normed(input, weight, bias, running_mean, running_var, False, momentum, eps)
    if input._array.dtype.kind not in "fV":
        raise unsupported("instance_norm", input._array)
    _check_channels("instance_norm", input._array, weight, bias, running_mean, running_var)
    over = _over_groups(len(shape), eps, None)
    if running_mean is not None or running_var is not None:
        mean_, rstd = (reshape(one, shape[:2]) for one in _statistics(input.detach(), over))
        move(running_mean, mean(mean_, 0), momentum)
        count = math.prod(shape[2:])
        # The mean over the batch of what each example's deviation says.
        each_var = 1 / (rstd * rstd)
        move_variance(running_var, rsqrt(mean(each_var, 0)), eps, count, momentum)
    return layer_standardise(input, weight, bias, over)


def local_response_norm(
    input: Any, size: int, alpha: Any = 1e-4, beta: Any = 0.75, k: Any = 1.0
) -> Any:
    """Divide by `(k + alpha * mean of squares) ** beta`, over `size` neighbouring channels.

    >>> import pullback as torch
    >>> torch.nn.functional.local_response_norm(torch.randn(1, 4, 3), 2).shape
    torch.Size([1, 4, 3])
    """
    shape = tuple(input.shape)
    if len(shape) < 3:
        raise ValueError(f"local_response_norm: needs at least 3 dimensions, got shape {shape}.")
    if not input._array.size:
        return input
    before, after = size // 2, (size - 1) // 2
    zeros = input.new_zeros((shape[0], 1, *shape[2:]))
    squares = cat([*[zeros] * before, input * input, *[zeros] * after], 1)
    near = mean(unfold(squares, 1, size, 1), -1)
    return input / pow(near * alpha + k, beta)
