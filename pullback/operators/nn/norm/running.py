"""Batch norm by given statistics, and how running statistics follow those of the batches."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import LIBRARIES, Array, Namespace
from pullback.core.memory.hollow import Hollow
from pullback.core.mode import Hooked, changed, current, fast, get_mode
from pullback.core.overriding import answers
from pullback.core.tensor import wrap
from pullback.core.version import bump, bump_all
from pullback.operators.arrays.formats import keeps_format
from pullback.operators.declare import Op, primitive
from pullback.operators.linalg.products import total
from pullback.operators.nn.norm import kernels
from pullback.operators.nn.norm.batch import broadcast_weights
from pullback.operators.nn.norm.layout import Over, layout
from pullback.operators.nn.norm.standardise import inverse_deviation, scaled, shaped, summed
from pullback.operators.reduce.sums import mean

__all__ = [
    "batch_statistics",
    "follow",
    "given_standardise",
    "move",
    "move_variance",
    "plain_statistics",
]


# Given statistics ---------------------------------------------------------------------------------


def _tangent(
    d_input: Any,
    d_weight: Any,
    d_bias: Any,
    d_average: Any,
    d_variance: Any,
    input: Any,
    weight: Any,
    average: Any,
    variance: Any,
    eps: float,
) -> Any:
    for name, tangent in (("running_mean", d_average), ("running_var", d_variance)):
        if tangent is not None:
            raise RuntimeError(
                f"batch_norm: {name} has a tangent, but running statistics have no derivative; "
                "take its primal, by unpack_dual() or detach()."
            )
    return total(
        d_input is not None and _given_standardise(d_input, weight, None, None, variance, eps),
        d_weight is not None
        and scaled(_given_standardise(input, None, None, average, variance, eps), d_weight, 1),
        d_bias is not None and shaped(d_bias, input.ndim, 1),
    )


def _in_batches(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """Any of the tensors may differ between examples, so it is done step by step."""
    value, bdim = split["input"]
    value = value[None] if bdim is None else value.movedim(bdim, 0)
    rank = value.ndim - 1
    there = {
        name: broadcast_weights(pair, rank, 1)
        for name, pair in split.items()
        if name != "input" and pair[0] is not None
    }
    factor = (there["variance"] + options["eps"]).rsqrt()
    if "average" in there:
        value = value - there["average"]
    value = value * (factor * there["weight"] if "weight" in there else factor)
    return value + there["bias"] if "bias" in there else value


@primitive(
    batch=_in_batches,
    input=lambda g, weight, variance, eps: _given_standardise(g, weight, None, None, variance, eps),
    weight=lambda g, input, average, variance, eps: summed(
        g * _given_standardise(input, None, None, average, variance, eps), 1
    ),
    bias=lambda g: summed(g, 1),
    jvp=_tangent,
    node="NativeBatchNormBackward0",
    has_out=False,
)
@partial(keeps_format, by_elements=True)
def _given_standardise(
    xp: Namespace,
    input: Array,
    weight: Array | None,
    bias: Array | None,
    average: Array | None,
    variance: Array,
    eps: float,
) -> Array:
    """`(input - average) / sqrt(variance + eps) * weight + bias`, by channel."""
    dtype = input.dtype
    if dtype.char not in "fd":  # half precision is computed in single
        if dtype.kind not in "fV":
            raise errors.unsupported("batch_norm", input)
        arrays = (input, weight, bias, average, variance)
        input, weight, bias, average, variance = (
            None if array is None else array.astype(xp.float32) for array in arrays
        )
    factor = xp.reciprocal(xp.sqrt(variance + eps))
    if weight is not None:
        factor *= weight
    shift = bias
    if average is not None:
        shift = -average * factor
        if bias is not None:
            shift += bias
    seen = layout(input.shape, Over((0, *range(2, input.ndim)), eps, channel=1))
    return kernels.scaled_runs(xp, input, factor, shift, seen).astype(dtype, copy=False)


def given_standardise(
    input: Any, weight: Any, bias: Any, average: Any, variance: Any, eps: float
) -> Any:
    """Batch norm by a mean and a variance that are no functions of the input."""
    for name, value in (("running_mean", average), ("running_var", variance)):
        if value.requires_grad and get_mode().grad:
            raise RuntimeError(
                f"batch_norm: {name} requires grad, but running statistics have no gradient; "
                "detach it."
            )
    return _given_standardise(input, weight, bias, average, variance, eps)


# Running statistics -------------------------------------------------------------------------------


@primitive(outputs="average rstd variance", method=False, aten="", has_out=False)
def _channel_statistics(xp: Namespace, input: Array, over: Over) -> Any:
    """Mean, inverse deviation and variance of each channel, as (1, channels)."""
    return kernels.channel_statistics(xp, input, layout(input.shape, over), over)


def _captured_statistics(input: Any, over: Over) -> tuple[Any, Any, Any] | None:
    """What a capture that promises eager's bits writes down: the kernel that eager calls."""
    mode, array = get_mode(), input._array
    exact = mode.tracing is not None and mode.tracing.exact and not mode.levels
    if not exact or mode.dual_depth or array.dtype.char not in "fd" or not array.size:
        return None
    average, rstd, variance = _channel_statistics(input.detach(), over)
    return average._array, rstd._array, variance._array


def batch_statistics(input: Any, over: Over) -> tuple[Any, Any]:
    """Mean and inverse deviation of each channel, without history."""
    array, channels = input._array, (input._array.shape[1],)
    captured = _captured_statistics(input, over)
    if captured is not None:
        return wrap(captured[0]).reshape(channels), wrap(captured[1]).reshape(channels)
    mode = get_mode()
    seen_by_others = mode.levels or mode.dispatch
    if seen_by_others or type(array) is not numpy.ndarray or array.dtype.char not in "fd":
        input = input.detach()
        if mode.dispatch and not mode.levels:  # operators that torch has too
            variance = input.var(over.dims, correction=0)
            return mean(input, over.dims), (variance + over.eps).rsqrt()
        found = mean(input, over.dims), inverse_deviation(input, over._replace(channel=None))
        return found[0], found[1].reshape(channels)
    seen = layout(array.shape, over)
    statistics: Any = kernels.channel_statistics if array.size else kernels.statistics
    average, rstd = statistics(numpy, array, seen, over)[:2]
    assert average is not None  # as statistics are centred
    return wrap(average.reshape(channels)), wrap(rstd.reshape(channels))


def plain_statistics(input: Any, over: Over) -> tuple[Array, Array, Array] | None:
    """What `batch_statistics` finds, and the variance, as arrays; None inside transforms."""
    mode = get_mode()
    if isinstance(mode, Hooked):  # as without hooks: what a checkpoint computes again is the same
        mode = mode.usual
    if (mode is not fast.plain and mode is not fast.no_grad) or answers(input):
        return _captured_statistics(input, over)
    array = input._array
    if type(array) is not numpy.ndarray:
        library: Any = LIBRARIES.get(type(array))
        return None if library is None else library.channel_statistics(array, over)
    if array.dtype.char not in "fd" or not array.size:
        return None
    return kernels.channel_statistics(numpy, array, layout(array.shape, over), over)


def follow(
    known: tuple[Array, Array, Array],
    running_mean: Any,
    running_var: Any,
    count: int,
    momentum: float,
) -> None:
    """What `move` and `move_variance` do, with statistics that are arrays."""
    kept = 1 - momentum
    # The count first: a size that a capture remembers is asked before a float, and stays one.
    unbiased = count * momentum / (count - 1 if count != 1 else math.nan)
    library: Any = LIBRARIES.get(type(known[0]))
    if library is not None:
        both, parts = (running_mean._array, running_var._array), (kept, momentum, unbiased)
        if library.follow_statistics(known, *both, parts):
            bump(running_mean, "batch_norm")
            bump(running_var, "batch_norm")
            return
    for running, found, part in (
        (running_mean, known[0], momentum),
        (running_var, known[2], unbiased),
    ):
        array = running._array
        old: Any = kept
        new: Any = part
        if type(array) is numpy.ndarray:  # else captured: the number may depend on sizes
            old, new = kernels.number(kept, array.dtype), kernels.number(part, array.dtype)
        try:
            array *= old
        except ValueError:
            raise errors.read_only("batch_norm") from None
        array += (found * new).reshape(array.shape)
    bump_all([running_mean, running_var], "batch_norm")


def _by_operators(running: Any) -> bool:
    mode = get_mode()
    return bool(mode.levels or mode.dispatch or isinstance(running._array, Hollow))


def move(running: Any, value: Any, momentum: float) -> None:
    """Move a running statistic towards the batch's, in place and unseen by autograd."""
    if running is None:
        return
    mode = get_mode()
    # A level refuses to write what differs between examples to what they share; a mode that takes
    # operators, or a class that answers them, is shown the write.
    if _by_operators(running):
        try:
            current.set(changed(mode, grad=False))
            running.copy_(running * (1 - momentum) + momentum * value)
        finally:
            current.set(mode)
        return
    array = running._array
    array *= 1 - momentum
    array += momentum * value._array.astype(array.dtype, copy=False)
    bump(running, "batch_norm")


def move_variance(running: Any, rstd: Any, eps: float, count: int, momentum: float) -> None:
    """The same for the variance, which is the one without bias."""
    if running is None:
        return
    unbiased = count / (count - 1 if count != 1 else math.nan)  # of one value there is none
    if _by_operators(running):
        move(running, (1 / (rstd * rstd) - eps) * unbiased, momentum)
        return
    array = rstd._array
    move(running, wrap(((1 / (array * array) - eps) * unbiased).astype(array.dtype)), momentum)
