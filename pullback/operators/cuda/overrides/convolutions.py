"""Convolutions: by cuDNN where it is installed and switched on, half precision as it is.

Else those of images have kernels of their own for few filters and are products with columns for
many, and other dimensions go the host's way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pullback.core.ports import ports
from pullback.core.process.determinism import wish
from pullback.operators.cuda.cudnn_plans import Geometry, Wanted
from pullback.operators.cuda.found import found
from pullback.operators.cuda.kernel_overrides import replace

__all__ = ["enter"]

_MOST = 1 << 26  # bytes of columns at a time
_LONG = 1 << 30  # elements that `filters` counts


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

    library = found.library
    by_cudnn, switches = _switches()
    if by_cudnn:
        geometry_of = Geometry(stride, padding, dilation, groups)
        reached = _number(input.shape[2:], weight.shape[2:], stride, padding, dilation)
        made = library.cudnn.correlate(input, weight, bias, reached, geometry_of, switches)
        if made is not None:
            return made
    number: tuple[int, ...] = ()
    if _are_usual(input, weight, bias):
        number = _number(input.shape[2:], weight.shape[2:], stride, padding, dilation)
    if not number or min(number) < 1:
        original = library.original(kernels.correlated)
        return original(xp, input, weight, bias, stride, padding, dilation, groups)
    geometry = number, stride, padding, dilation, groups
    size = len(input) * weight.shape[0] * math.prod(number)
    if size < _LONG and library.filters.are_few(weight.shape[0], groups, input):
        return library.filters.correlate(input, weight, bias, *geometry)
    return _by_columns(input, weight, bias, *geometry)


def _switches() -> tuple[bool, Wanted]:
    """Whether cuDNN is asked, and how exact and in what order it must compute."""
    if found.library.cudnn.library() is None:
        return False, Wanted(exact=True, deterministic=False)
    enabled, deterministic, exact = ports.cudnn_switches()
    return enabled, Wanted(exact, deterministic or wish.enabled)


def _as_it_is(xp: Any, kernel: Any, arrays: list[Any], *options: Any) -> Any:
    """Half precision: by cuDNN, which adds up in single; else computed in single as a whole."""
    from pullback.operators.nn.conv import operators

    by_cudnn, switches = _switches()
    made: Any = None
    if by_cudnn:
        made = _half(arrays, options, switches)
    if made is None:
        original = found.library.original(operators._in_single)
        made = original(xp, kernel, arrays, *options)
    return made


def _half(arrays: list[Any], options: Any, switches: Wanted) -> Any:
    """A convolution, or an adjoint: it has a size, or no more than two arrays."""
    cudnn = found.library.cudnn
    *size, stride, padding, dilation, groups = options
    geometry = Geometry(stride, padding, dilation, groups)
    if len(arrays) == 2:
        return cudnn.filter_gradient(*arrays, *size, geometry, switches)
    if size:
        return cudnn.spread(*arrays, *size, geometry, switches)
    input, weight, bias = arrays
    number = _number(input.shape[2:], weight.shape[2:], stride, padding, dilation)
    return cudnn.correlate(input, weight, bias, number, geometry, switches)


def _are_usual(input: Any, weight: Any, bias: Any) -> bool:
    """Whether there are kernels for such images, filters and numbers to add."""
    windows = found.library.windows
    same = weight.dtype is input.dtype and (bias is None or bias.dtype is input.dtype)
    if not same or not windows.fits(input) or not windows.fits(weight):
        return False
    return bias is None or bool(bias._c_contiguous)


def _by_columns(
    input: Any,
    weight: Any,
    bias: Any,
    number: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    """A product for some examples at a time, so that columns take little memory."""
    library = found.library
    windows = library.windows
    outputs, _, *kernel = weight.shape
    n, places = input.shape[0], math.prod(number)
    single = kernel == [1, 1] and set(stride) == {1} and not any(map(any, padding))
    filters = weight.reshape(outputs, -1)
    if groups > 1:
        filters = filters.reshape(groups, outputs // groups, -1)
    out = library.cupy.ndarray((n, outputs, *number), input.dtype)
    room = 0 if single else input.shape[1] * math.prod(kernel) * places * input.itemsize
    for piece in _pieces(n, room):
        image = input[piece]
        count = len(image)
        columns = (
            image.reshape(count, -1, places)
            if single
            else windows.columns(image, kernel, number, stride, padding, dilation, together=False)
        )
        if groups > 1:
            columns = columns.reshape(count, groups, -1, places)
        to = out[piece].reshape(*columns.shape[:-2], filters.shape[-2], places)
        library.blas.matmul(filters[None], columns, to)
    return out if bias is None else windows.add_channels(out, bias)


def _pieces(n: int, room: int) -> Iterator[slice]:
    """Examples whose columns, of `room` bytes each, are made at a time."""
    step = max(min(n, _MOST // max(room, 1)), 1)
    for start in range(0, n, step):
        yield slice(start, start + step)


def _number(size: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> tuple[int, ...]:
    sides = zip(size, kernel, stride, padding, dilation, strict=True)
    return tuple((n + sum(pad) - d * (k - 1) - 1) // s + 1 for n, k, s, pad, d in sides)


def _spread(
    xp: Any,
    input: Any,
    weight: Any,
    bias: Any,
    size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    """The adjoint with respect to the image: each element of it looks for its windows."""
    from pullback.operators.nn.conv import adjoint

    by_cudnn, switches = _switches()
    if by_cudnn:
        options = Geometry(stride, padding, dilation, groups)
        made = found.library.cudnn.spread(input, weight, bias, size, options, switches)
        if made is not None:
            return made
    filters = found.library.filters
    channels = weight.shape[1] * groups
    few = _are_usual(input, weight, bias) and filters.are_few(channels, groups, input)
    if few and len(input) * channels * math.prod(size) < _LONG and min(size) > 0:
        geometry = size, stride, padding, dilation, groups
        return filters.correlate(input, weight, bias, *geometry, turned=True)
    original = found.library.original(adjoint.spread)
    return original(xp, input, weight, bias, size, stride, padding, dilation, groups)


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

    library = found.library
    outputs, channels = gradient.shape[1], input.shape[1]
    options = kernel, stride, padding, dilation, groups
    by_cudnn, switches = _switches()
    if by_cudnn:
        made = library.cudnn.filter_gradient(
            gradient, input, kernel, Geometry(*options[1:]), switches
        )
        if made is not None:
            return made
    if gradient.dtype is input.dtype and library.windows.fits(input) and gradient.size:
        elements = channels // groups * math.prod(kernel)
        few = library.filters.are_short(outputs, elements, groups, gradient, input)
        if few and library.windows.fits(gradient):
            return library.filters.gradient(gradient, input, *options)
        if groups == 1:
            return _gradient_by_columns(xp, gradient, input, *options[:-1])
    return library.original(kernels.weight_gradient)(xp, gradient, input, *options)


def _gradient_by_columns(
    xp: Any, gradient: Any, input: Any, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> Any:
    library = found.library
    number, outputs, channels = gradient.shape[2:], gradient.shape[1], input.shape[1]
    out: Any = None
    room = channels * math.prod(kernel) * math.prod(number) * input.itemsize
    for piece in _pieces(len(input), room):
        columns = library.windows.columns(
            input[piece], kernel, number, stride, padding, dilation, together=True
        )
        left = xp.cupy.ascontiguousarray(gradient[piece].swapaxes(0, 1)).reshape(outputs, -1)
        if out is None:  # in its own shape: who keeps a gradient copies views
            out = library.cupy.ndarray((outputs, channels, *kernel), input.dtype)
            library.blas.matmul(left, columns.T, out.reshape(outputs, -1))
        else:
            out.reshape(outputs, -1)[...] += library.blas.matmul(left, columns.T)
    return out


def _bias_gradient(g: Any) -> Any:
    """The sums of the channels, in one launch."""
    from pullback.operators.nn.conv import operators

    library = found.library
    if library.windows.fits(g) and g.size < 1 << 31:
        return library.filters.channel_sums(g)
    return library.original(operators._bias_gradient)(g)


def enter() -> None:
    """Into the table."""
    from pullback.operators.nn.conv import adjoint, kernels, operators

    replace(
        {
            operators._bias_gradient: _bias_gradient,
            operators._in_single: _as_it_is,
            kernels.correlated: _correlated,
            kernels.weight_gradient: _weight_gradient,
            adjoint.spread: _spread,
        }
    )
