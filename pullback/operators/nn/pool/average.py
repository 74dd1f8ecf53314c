"""Average pooling: the mean of each window, plain and adaptive, and power averages (`lp_pool`)."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy

from pullback.core.errors import unsupported
from pullback.operators.arrays.blocks import image_by_image
from pullback.operators.arrays.formats import image_format_of
from pullback.operators.arrays.windows import Sizes, inner, padded, sizes, volume, whole_size
from pullback.operators.conditions import at_least, below, floating, host, says
from pullback.operators.declare import Array, Namespace, kernel, linear
from pullback.operators.linalg.products import delivered
from pullback.operators.nn.image.taps import Taps, declare_resample
from pullback.operators.nn.pool import native
from pullback.operators.nn.pool.maximum import max_pool1d, max_pool2d, max_pool3d
from pullback.operators.nn.pool.shapes import (
    Geometry,
    adaptive_bounds,
    adaptive_sizes,
    are_apart,
    even_geometry,
    lines_of,
    pool_geometry,
)
from pullback.operators.pointwise.direction import abs, sign
from pullback.operators.pointwise.extrema import relu
from pullback.operators.pointwise.powers import pow
from pullback.operators.reduce.sums import mean
from pullback.operators.shape.reshaping import contiguous
from pullback.operators.variants import named

FOUND_IN = {
    "torch": "adaptive_avg_pool1d avg_pool1d",
    "nn.functional": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d avg_pool1d avg_pool2d
        avg_pool3d lp_pool1d lp_pool2d lp_pool3d
    """,
}

# Kernels ------------------------------------------------------------------------------------------


@functools.lru_cache(256)
def _number(divisor: int, dtype: Any) -> Array:
    return numpy.array(divisor, dtype)


def _divided(xp: Namespace, sums: Array, divisor: Any, out: Array | None) -> Array:
    """`sums` over a number or an array of numbers; whole numbers towards zero."""
    if sums.dtype.kind in "iu":
        return xp.trunc(sums / divisor).astype(sums.dtype)
    by = _number(divisor, sums.dtype) if type(divisor) is int else divisor.astype(sums.dtype)
    return xp.true_divide(sums, by, out=out)


def _sums(xp: Namespace, input: Array, geometry: Geometry) -> Array:
    """Sums of windows, dimension by dimension; the input itself where windows are single."""
    sums = padded(xp, input, geometry.pads)
    for first, *others in lines_of(geometry):
        parts = sums[first], *(sums[place] for place in others)
        sums = parts[0] + parts[1] if others else parts[0]
        for part in parts[2:]:
            sums += part
    return sums


# Up to so many elements, and so many of a matrix, windows are added up by a product with it.
_FEW = 1 << 12
_MOST_OF_MATRIX = 1 << 14


class _Few(NamedTuple):
    """The averages of windows as a product of images, `(images, elements)`, and a matrix."""

    images: Sizes
    matrix: Array
    out: Sizes


@functools.lru_cache(256)
def _few(shape: Sizes, geometry: Geometry, dtype: Any, divisor: int) -> _Few | None:
    dims = len(geometry.kernel)
    lead, size = shape[: len(shape) - dims], shape[len(shape) - dims :]
    length, number = volume(size), volume(geometry.number)
    if volume(shape) > _FEW or length * number > _MOST_OF_MATRIX or dtype.char not in "fd":
        return None
    units = numpy.eye(length, dtype=dtype).reshape(length, *size)
    matrix = numpy.ascontiguousarray(_sums(numpy, units, geometry)).reshape(length, number)
    matrix /= dtype.type(divisor)
    return _Few((volume(lead), length), matrix, (*lead, *geometry.number))


def _averages(xp: Namespace, input: Array, geometry: Geometry, divisor: Any) -> Array:
    """Sums of windows over `divisor`: a number, or one per window."""
    dtype = input.dtype
    if dtype.itemsize == 2 and dtype.kind in "fV":
        return _averages(xp, input.astype(xp.float32), geometry, divisor).astype(dtype)

    def average(out: Array, images: Array) -> None:
        sums = _sums(xp, images, geometry)
        if dtype.kind in "iu":
            out[...] = _divided(xp, sums, divisor, None)
        else:
            _divided(xp, sums, divisor, out)

    made = image_by_image(xp, average, len(geometry.kernel), geometry.number, input)
    return image_format_of(input, len(geometry.kernel), made)


@linear(input=lambda g, geometry, divisor: _average(g, geometry, divisor), has_out=False)
def _spread_average(
    xp: Namespace, input: Array, size: Sizes, geometry: Geometry, divisor: Any
) -> Array:
    """The adjoint of an average: the share of each element, in all windows that it is in."""
    return image_format_of(
        input, len(geometry.kernel), _spread_many(xp, input, size, geometry, divisor)
    )


_few_elements = host & below(native.MANY) & floating
_many_elements = host & at_least(native.MANY) & floating & says("type(divisor) is int", int=int)
_halves = host & says("@_dtype.itemsize == 2", "@_dtype.kind in 'fV'")


@kernel(_spread_average, when=_few_elements, declines=True)
def _few_spread(
    xp: Namespace, input: Array, size: Sizes, geometry: Geometry, divisor: Any, input_dtype: Any
) -> Array | None:
    shape = (*input.shape[: -len(size)], *size)
    few = _few(shape, geometry, input_dtype, divisor if type(divisor) is int else 1)
    if few is None:
        return None
    flat = (input if type(divisor) is int else _divided(xp, input, divisor, None)).ravel()
    if not flat.dot(flat) < math.inf:  # as `is_finite`: the matrix has zeros
        return None
    made = flat.reshape(few.images[0], few.matrix.shape[1]).dot(few.matrix.T).reshape(shape)
    return made if input.flags.c_contiguous else image_format_of(input, len(geometry.kernel), made)


@kernel(_spread_average, when=_many_elements, machine_code=True)
def _many_spread(input: Array, size: Sizes, geometry: Geometry, divisor: int) -> Array | None:
    made = native.spread_averages(input, size, geometry, divisor)
    return None if made is None else image_format_of(input, len(geometry.kernel), made)


@kernel(_spread_average, when=_halves)
def _halves_spread(
    xp: Namespace, input: Array, size: Sizes, geometry: Geometry, divisor: Any
) -> Array:
    forward: Any = _spread_average.op.forward  # type: ignore[attr-defined]  # declared
    return forward(xp, input.astype(xp.float32), size, geometry, divisor).astype(input.dtype)


def _spread_many(
    xp: Namespace, input: Array, size: Sizes, geometry: Geometry, divisor: Any
) -> Array:
    """The same, dimension by dimension, in the usual order of memory."""
    if input.dtype.itemsize == 2 and input.dtype.kind in "fV":
        single = input.astype(xp.float32)
        return _spread_many(xp, single, size, geometry, divisor).astype(input.dtype)
    pads = geometry.pads
    whole = whole_size(size, pads)

    def share_out(out: Array, given: Array) -> None:
        fill = out if whole == size else xp.empty((*given.shape[: -len(size)], *whole), out.dtype)
        _spread(xp, _divided(xp, given, divisor, None), geometry, fill)
        if fill is not out:
            out[...] = fill[inner(pads, size)]

    return image_by_image(xp, share_out, len(size), size, input)


def _spread(xp: Namespace, shares: Array, geometry: Geometry, out: Array) -> None:
    """Write to `out`, padded images, the shares added up at all places of their windows."""
    kernel, _, _, dilation, number = geometry
    apart = are_apart(geometry)
    lead, whole = shares.shape[: -len(number)], out.shape[-len(number) :]
    # The last dimension last: until then there is less to add.
    for dim, places in enumerate(lines_of(geometry)):
        made = out
        if dim < len(number) - 1:
            made = xp.empty((*lead, *whole[: dim + 1], *number[dim + 1 :]), out.dtype)
        covered = apart and dilation[dim] == 1 and number[dim] * kernel[dim] == whole[dim]
        if not covered:
            made[...] = 0
        for place in places:
            if apart:
                made[place] = shares
            else:
                made[place] += shares
        shares = made


def _declared(name: str, node: str) -> Any:
    return linear(
        input=lambda g, input_shape, geometry, divisor: _spread_average(
            g, input_shape[-len(geometry.kernel) :], geometry, divisor
        ),
        has_out=False,
        name=name,
        node=node,
    )(_averages)


# One operator for each number of dimensions, so that the graph shows the name that torch's shows.
_average: Any = _declared("_average", "AveragePoolBackward0")
_POOLS = {n: _declared(f"_avg_pool{n}d", f"AvgPool{n}DBackward0") for n in (1, 2, 3)}
_ADAPTIVE_POOLS = {
    n: _declared(f"_adaptive_avg_pool{n}d", f"AdaptiveAvgPool{n}DBackward0") for n in (1, 2, 3)
}
_ALL = (_average, *_POOLS.values(), *_ADAPTIVE_POOLS.values())
_PLANE = (_average, *[pools[dims] for pools in (_POOLS, _ADAPTIVE_POOLS) for dims in (1, 2)])


@kernel(*_ALL, when=_few_elements, declines=True)
def _few_averages(
    input: Array, geometry: Geometry, divisor: Any, input_shape: Any, input_dtype: Any
) -> Array | None:
    few = _few(input_shape, geometry, input_dtype, divisor if type(divisor) is int else 1)
    if few is None:
        return None
    flat = input.ravel()
    if not flat.dot(flat) < math.inf:
        return None
    made = flat.reshape(few.images).dot(few.matrix).reshape(few.out)
    if type(divisor) is not int:
        made /= divisor.astype(input_dtype)
    return made if input.flags.c_contiguous else image_format_of(input, len(geometry.kernel), made)


@kernel(*_PLANE, when=_many_elements, machine_code=True)
def _many_averages(input: Array, geometry: Geometry, divisor: int) -> Array | None:
    made = native.averages(input, geometry, divisor)
    return None if made is None else image_format_of(input, len(geometry.kernel), made)


@kernel(*_ALL, when=_halves)
def _halves_averaged(xp: Namespace, input: Array, geometry: Geometry, divisor: Any) -> Array:
    forward: Any = _average.op.forward
    return forward(xp, input.astype(xp.float32), geometry, divisor).astype(input.dtype)


_UNEVEN_POOLS = {
    n: declare_resample(f"_uneven_avg_pool{n}d", f"AdaptiveAvgPool{n}DBackward0") for n in (1, 2, 3)
}


# Plain windows ------------------------------------------------------------------------------------

_NAMES = {dims: f"avg_pool{dims}d" for dims in (1, 2, 3)}


@functools.lru_cache(256)
def _divisor(geometry: Geometry, size: Sizes, padding: Sizes, include_pad: bool) -> Any:
    """How many elements count in a window: one number if all have as many, else an array."""
    counts: Any = numpy.ones((), numpy.int64)
    for n, k, s, p, o in zip(
        size, geometry.kernel, geometry.stride, padding, geometry.number, strict=True
    ):
        starts = numpy.arange(o) * s - p
        ends = numpy.minimum(starts + k, n + p)
        if not include_pad:
            starts, ends = numpy.maximum(starts, 0), numpy.minimum(ends, n)
        counts = counts[..., None] * (ends - starts)
    whole = volume(geometry.kernel)
    return whole if (counts == whole).all() else counts


def _avg_pool(
    dims: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Any:
    op = _NAMES[dims]
    geometry = pool_geometry(op, dims, input, kernel_size, stride, padding, 1, ceil_mode)
    array = input._array
    if array.dtype.kind in "bcu" or (array.dtype.kind == "i" and array.dtype.itemsize < 8):
        raise unsupported(op, array)
    if dims == 3:
        _check_volume(op, array.shape, geometry.kernel)
    divisor: Any = divisor_override
    if divisor is None:
        if padding == 0 and ceil_mode is False:  # all of each window is there
            divisor = math.prod(geometry.kernel)
        else:
            around = sizes(op, "padding", padding, dims)
            divisor = _divisor(geometry, array.shape[-dims:], around, bool(count_include_pad))
    elif divisor == 0:
        raise RuntimeError(f"{op}: divisor_override must not be 0.")
    return _POOLS[dims](input, geometry, divisor)


def _check_volume(op: str, shape: Sizes, kernel: Sizes) -> None:
    """Volumes, unlike images, must be as large as a window without their padding."""
    if any(n < k for n, k in zip(shape[-3:], kernel, strict=True)):
        raise RuntimeError(
            f"{op}: a window of {kernel} is larger than input of shape {shape}; padding does not "
            "count here."
        )


def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """Average pooling of sequences; zeros of the padding count if `count_include_pad`.

    >>> import pullback as torch
    >>> torch.avg_pool1d(torch.tensor([[[1.0, 3.0, 5.0, 7.0]]]), 2)
    tensor([[[2., 6.]]])
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def _averaging(dims: int) -> Any:
    def pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
        *,
        out: Any = None,
    ) -> Any:
        result = _avg_pool(
            dims,
            input,
            kernel_size,
            stride,
            padding,
            ceil_mode,
            count_include_pad,
            divisor_override,
        )
        return result if out is None else delivered(_NAMES[dims], result, out)

    return pool


avg_pool2d = named(
    "avg_pool2d",
    _averaging(2),
    """Average pooling of images: mean of each window, or its sum over `divisor_override`.

    >>> import pullback as torch
    >>> torch.nn.functional.avg_pool2d(torch.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """,
)


avg_pool3d = named(
    "avg_pool3d",
    _averaging(3),
    """Average pooling of volumes: mean of each window, or its sum over `divisor_override`.

    >>> import pullback as torch
    >>> torch.nn.functional.avg_pool3d(torch.ones(1, 1, 4, 4, 4), 2).shape
    torch.Size([1, 1, 2, 2, 2])
    """,
)


# Adaptive windows ---------------------------------------------------------------------------------

_ADAPTIVE_NAMES = {dims: f"adaptive_avg_pool{dims}d" for dims in (1, 2, 3)}


@functools.lru_cache(256)
def _uneven(size: int, number: int) -> Taps:
    """The table of `number` averages that cover `size`."""
    rows: list[int] = []
    columns: list[int] = []
    weights: list[float] = []
    for row, (start, end) in enumerate(adaptive_bounds(size, number)):
        rows += [row] * (end - start)
        columns += range(start, end)
        weights += [1 / (end - start)] * (end - start)
    return Taps(rows, columns, weights, number, size)


@functools.lru_cache(256)
def _tables(size: Sizes, number: Sizes) -> tuple[Taps | None, ...]:
    return tuple(None if n == o else _uneven(n, o) for n, o in zip(size, number, strict=True))


def _adaptive_avg_pool(dims: int, input: Any, output_size: Any) -> Any:
    op = _ADAPTIVE_NAMES[dims]
    # As in torch, where volumes have channels, and images may have none.
    number = adaptive_sizes(op, dims, input, output_size, leading=1 if dims == 3 else None)
    array = input._array
    if array.dtype.kind in "biuc":
        raise unsupported(op, array)
    if number == (1,) * dims:
        return mean(input, tuple(range(array.ndim - dims, array.ndim)), True)
    size = array.shape[-dims:]
    if (geometry := even_geometry(size, number)) is not None:
        made = _ADAPTIVE_POOLS[dims](input, geometry, volume(geometry.kernel))
    else:
        made = _UNEVEN_POOLS[dims](input, _tables(size, number))
    return contiguous(made) if dims == 3 else made  # volumes do not keep their format


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """Adaptive average pooling of sequences: the mean of each of `output_size` windows.

    >>> import pullback as torch
    >>> torch.adaptive_avg_pool1d(torch.arange(6.0).view(1, 1, 6), 2)
    tensor([[[1., 4.]]])
    """
    return _adaptive_avg_pool(1, input, output_size)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Adaptive average pooling of images: the mean of each of `output_size` windows.

    >>> import pullback as torch
    >>> torch.nn.functional.adaptive_avg_pool2d(torch.arange(16.0).reshape(1, 4, 4), (1, None))
    tensor([[[6., 7., 8., 9.]]])
    """
    return _adaptive_avg_pool(2, input, output_size)


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """Adaptive average pooling of volumes: the mean of each of `output_size` windows.

    >>> import pullback as torch
    >>> torch.nn.functional.adaptive_avg_pool3d(torch.ones(1, 1, 4, 4, 4), 2).shape
    torch.Size([1, 1, 2, 2, 2])
    """
    return _adaptive_avg_pool(3, input, output_size)


# Power averages -----------------------------------------------------------------------------------


def _lp_pool(
    dims: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Any:
    kernel = sizes(f"lp_pool{dims}d", "kernel_size", kernel_size, dims)
    if norm_type == 0:
        raise ZeroDivisionError(f"lp_pool{dims}d: norm_type is 0, and there is no 0th root.")
    if math.isinf(norm_type):  # the largest, or the smallest
        largest = (max_pool1d, max_pool2d, max_pool3d)[dims - 1]
        side = 1 if norm_type > 0 else -1
        return side * largest(side * abs(input), kernel, stride, ceil_mode=ceil_mode)
    means = _avg_pool(
        dims, pow(input, norm_type), kernel, stride, 0, ceil_mode, count_include_pad=True
    )
    return pow(sign(means) * relu(abs(means)) * volume(kernel), 1.0 / norm_type)


def lp_pool1d(
    input: Any, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """Power-average pooling: the p-norm (`norm_type`) of each window of sequences.

    >>> import pullback as torch
    >>> torch.nn.functional.lp_pool1d(torch.tensor([[[3.0, 4.0]]]), 2, 2)
    tensor([[[5.]]])
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Any, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """Power-average pooling: the p-norm (`norm_type`) of each window of images.

    >>> import pullback as torch
    >>> torch.nn.functional.lp_pool2d(torch.full((1, 2, 2), 3.0), 2, 2)
    tensor([[[6.]]])
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Any, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """Power-average pooling: the p-norm (`norm_type`) of each window of volumes.

    >>> import pullback as torch
    >>> torch.nn.functional.lp_pool3d(torch.ones(1, 1, 2, 2, 2), 2, 2).shape
    torch.Size([1, 1, 1, 1, 1])
    """
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
