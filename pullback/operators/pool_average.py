"""Average pooling: the mean of each window, plain and adaptive, and power averages (`lp_pool`)."""

from __future__ import annotations

import functools
from typing import Any

import numpy

from pullback.core.tensor import Tensor
from pullback.operators.arithmetic import unsupported
from pullback.operators.declare import Array, Namespace, linear
from pullback.operators.direction import abs, sign
from pullback.operators.extrema import relu
from pullback.operators.pool_shapes import (
    Geometry,
    adaptive_bounds,
    adaptive_sizes,
    pool_geometry,
)
from pullback.operators.powers import pow
from pullback.operators.products import delivered
from pullback.operators.reduction import mean
from pullback.operators.taps import Taps, declare_resample
from pullback.operators.windows import Pads, Sizes, along, inner, padded, sizes, volume

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
]

# Kernels ------------------------------------------------------------------------------------------


def _divided(xp: Namespace, sums: Array, divisor: Any) -> Array:
    """`sums`, which are new, divided in place; whole numbers towards zero."""
    if sums.dtype.kind in "iu":
        return xp.trunc(sums / divisor).astype(sums.dtype)
    sums /= divisor if isinstance(divisor, int) else divisor.astype(sums.dtype)
    return sums


def _averages(
    xp: Namespace,
    input: Array,
    kernel: Sizes,
    stride: Sizes,
    pads: Pads,
    number: Sizes,
    divisor: Any,
) -> Array:
    """Sums of windows, dimension by dimension, over `divisor`: a number, or one per window."""
    if input.dtype.itemsize == 2 and input.dtype.kind in "fV":
        single = _averages(xp, input.astype(xp.float32), kernel, stride, pads, number, divisor)
        return single.astype(input.dtype)
    dims = len(kernel)
    sums = padded(xp, input, pads)
    for dim in range(dims):
        behind = (slice(None),) * (dims - dim - 1)
        parts = [
            sums[(..., along(point, number[dim], stride[dim], 1), *behind)]
            for point in range(kernel[dim])
        ]
        sums = parts[0] + parts[1] if len(parts) > 1 else parts[0]
        for part in parts[2:]:
            sums += part
    return _divided(xp, sums.copy() if max(kernel) == 1 else sums, divisor)


@linear(
    input=lambda g, input_shape, kernel, stride, pads, divisor: _average(
        g, kernel, stride, pads, input_shape[-len(kernel) :], divisor
    ),
    has_out=False,
)
def _spread_average(
    xp: Namespace,
    input: Array,
    size: Sizes,
    kernel: Sizes,
    stride: Sizes,
    pads: Pads,
    divisor: Any,
) -> Array:
    """The adjoint of an average: the share of each element, in all windows that it is in."""
    if input.dtype.itemsize == 2 and input.dtype.kind in "fV":
        single = input.astype(xp.float32)
        spread = _spread_average.op.forward(xp, single, size, kernel, stride, pads, divisor)  # type: ignore[attr-defined]
        return spread.astype(input.dtype)
    dims = len(kernel)
    shares = _divided(xp, input.copy(), divisor)
    # The last dimension last: until then there is less to add.
    for dim in range(dims):
        axis = shares.ndim - dims + dim
        whole = size[dim] + pads[dim][0] + pads[dim][1]
        out = xp.zeros((*shares.shape[:axis], whole, *shares.shape[axis + 1 :]), shares.dtype)
        behind = (slice(None),) * (dims - dim - 1)
        apart = stride[dim] >= kernel[dim]
        for point in range(kernel[dim]):
            place = (..., along(point, shares.shape[axis], stride[dim], 1), *behind)
            if apart:
                out[place] = shares
            else:
                out[place] += shares
        shares = out
    return shares[inner(pads, size)].copy() if any(map(any, pads)) else shares


def _declared(name: str, node: str) -> Any:
    return linear(
        input=lambda g, input_shape, kernel, stride, pads, divisor: _spread_average(
            g, input_shape[-len(kernel) :], kernel, stride, pads, divisor
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
_UNEVEN_POOLS = {
    n: declare_resample(f"_uneven_avg_pool{n}d", f"AdaptiveAvgPool{n}DBackward0") for n in (1, 2, 3)
}


# Plain windows ------------------------------------------------------------------------------------


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
    op = f"avg_pool{dims}d"
    geometry = pool_geometry(op, dims, input, kernel_size, stride, padding, 1, ceil_mode)
    _check_dtype(op, input, "bc")
    if divisor_override is None:
        around, size = sizes(op, "padding", padding, dims), tuple(input.shape[-dims:])
        divisor = _divisor(geometry, size, around, count_include_pad)
    elif divisor_override == 0:
        raise RuntimeError(f"{op}: divisor_override must not be 0.")
    else:
        divisor = divisor_override
    kernel, step, pads, _, number = geometry
    return _POOLS[dims](input, kernel, step, pads, number, divisor)


def _check_dtype(op: str, input: Tensor, refused: str) -> None:
    if input._array.dtype.kind in refused:
        raise unsupported(op, input._array)


def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window of lines; zeros of the padding count if `count_include_pad`."""
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
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
    """The mean of each window of images, or their sum over `divisor_override`.

    >>> import pullback as torch
    >>> torch.nn.functional.avg_pool2d(torch.arange(16.0).reshape(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    options = ceil_mode, count_include_pad, divisor_override
    result = _avg_pool(2, input, kernel_size, stride, padding, *options)
    return delivered("avg_pool2d", result, out)


def avg_pool3d(
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
    """The mean of each window of volumes, or their sum over `divisor_override`."""
    options = ceil_mode, count_include_pad, divisor_override
    result = _avg_pool(3, input, kernel_size, stride, padding, *options)
    return delivered("avg_pool3d", result, out)


# Adaptive windows ---------------------------------------------------------------------------------


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


def _adaptive_avg_pool(dims: int, input: Any, output_size: Any) -> Any:
    op = f"adaptive_avg_pool{dims}d"
    number = adaptive_sizes(op, dims, input, output_size)
    _check_dtype(op, input, "biuc")
    size = tuple(input.shape[-dims:])
    if set(number) == {1}:
        return mean(input, tuple(range(-dims, 0)), keepdim=True)
    if 0 not in number and not any(map(int.__mod__, size, number)):
        kernel = tuple(map(int.__floordiv__, size, number))
        pads = ((0, 0),) * dims
        return _ADAPTIVE_POOLS[dims](input, kernel, kernel, pads, number, volume(kernel))
    tables = tuple(None if n == o else _uneven(n, o) for n, o in zip(size, number, strict=True))
    return _UNEVEN_POOLS[dims](input, tables)


def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """The mean of each of `output_size` windows that cover the lines evenly."""
    return _adaptive_avg_pool(1, input, output_size)


def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """The mean of each of `output_size` windows that cover the images evenly.

    >>> import pullback as torch
    >>> torch.nn.functional.adaptive_avg_pool2d(torch.arange(16.0).reshape(1, 4, 4), (1, None))
    tensor([[[6., 7., 8., 9.]]])
    """
    return _adaptive_avg_pool(2, input, output_size)


def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """The mean of each of `output_size` windows that cover the volumes evenly."""
    return _adaptive_avg_pool(3, input, output_size)


# Power averages -----------------------------------------------------------------------------------


def _lp_pool(
    dims: int, input: Any, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool
) -> Any:
    kernel = sizes(f"lp_pool{dims}d", "kernel_size", kernel_size, dims)
    means = _avg_pool(
        dims, pow(input, norm_type), kernel, stride, 0, ceil_mode, count_include_pad=True
    )
    return pow(sign(means) * relu(abs(means)) * volume(kernel), 1.0 / norm_type)


def lp_pool1d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """The root of the sum of powers `norm_type` of each window of lines."""
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """The root of the sum of powers `norm_type` of each window of images.

    >>> import pullback as torch
    >>> torch.nn.functional.lp_pool2d(torch.full((1, 2, 2), 3.0), 2, 2)
    tensor([[[6.]]])
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Any:
    """The root of the sum of powers `norm_type` of each window of volumes."""
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
