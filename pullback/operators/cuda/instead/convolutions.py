"""Convolutions of images as one product of matrices; other dimensions go the host's way."""

from __future__ import annotations

from typing import Any

from pullback.operators.cuda.found import found
from pullback.operators.cuda.retarget import INSTEAD

__all__ = ["enter"]


def _correlated(
    xp: Any,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    """Each filter times each window, plus the bias of its output channel."""
    from pullback.operators.nn.conv import kernels

    windows = found.library.windows
    usual = weight.dtype is input.dtype and (bias is None or bias.dtype is input.dtype)
    if not usual or not windows.fits(input) or 0 in weight.shape:
        original = found.library.original(kernels.correlated)
        return original(xp, input, weight, bias, stride, padding, dilation, groups)
    outputs, _, *kernel = weight.shape
    number = _number(input.shape[2:], kernel, stride, padding, dilation)
    if min(number) < 1:
        original = found.library.original(kernels.correlated)
        return original(xp, input, weight, bias, stride, padding, dilation, groups)
    n = input.shape[0]
    places = number[0] * number[1]
    single = kernel == [1, 1] and set(stride) == {1} and not any(map(any, padding))
    columns = (
        input.reshape(n, -1, places)
        if single
        else windows.columns(input, kernel, number, stride, padding, dilation, together=False)
    )
    filters = weight.reshape(outputs, -1)
    if groups > 1:
        columns = columns.reshape(n, groups, -1, places)
        filters = filters.reshape(groups, outputs // groups, -1)
    out = found.library.blas.matmul(filters[None], columns).reshape(n, outputs, *number)
    return out if bias is None else windows.add_channels(out, bias)


def _number(size: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> tuple[int, ...]:
    sides = zip(size, kernel, stride, padding, dilation, strict=True)
    return tuple((n + sum(pad) - d * (k - 1) - 1) // s + 1 for n, k, s, pad, d in sides)


def _weight_gradient(
    xp: Any,
    gradient: Any,
    input: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    """The gradient of all places times all windows."""
    from pullback.operators.nn.conv import kernels

    windows = found.library.windows
    if (
        groups > 1
        or gradient.dtype is not input.dtype
        or not windows.fits(input)
        or not gradient.size
    ):
        original = found.library.original(kernels.weight_gradient)
        return original(xp, gradient, input, kernel, stride, padding, dilation, groups)
    number = gradient.shape[2:]
    outputs = gradient.shape[1]
    columns = windows.columns(input, kernel, number, stride, padding, dilation, together=True)
    left = xp.cupy.ascontiguousarray(gradient.swapaxes(0, 1)).reshape(outputs, -1)
    made = found.library.blas.matmul(left, columns.T)
    return made.reshape(outputs, input.shape[1], *kernel)


def _bias_gradient(g: Any) -> Any:
    """The sums of the channels, in one launch."""
    from pullback.operators.nn.conv import operators

    windows = found.library.windows
    if windows.fits(g):
        return windows.channel_sums(g)
    return found.library.original(operators._bias_gradient)(g)


def enter() -> None:
    """Into the table."""
    INSTEAD["pullback.operators.nn.conv.operators._bias_gradient"] = _bias_gradient
    place = "pullback.operators.nn.conv.kernels."
    INSTEAD[place + "correlated"] = _correlated
    INSTEAD[place + "weight_gradient"] = _weight_gradient
