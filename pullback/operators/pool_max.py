"""Max pooling over plain and adaptive windows: the largest of each; of equal ones the first counts.

The gradient finds the places of the maxima again, instead of keeping them: without `return_indices`
the forward is a few calls of `maximum`.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators.arithmetic import unsupported
from pullback.operators.batching import together
from pullback.operators.declare import Array, Namespace, primitive
from pullback.operators.pool_places import (
    declare_take,
    has_nan,
    put_places,
    take_places,
    window_places,
)
from pullback.operators.pool_shapes import Geometry, adaptive_bounds, adaptive_sizes, pool_geometry
from pullback.operators.windows import Sizes, along, inner, padded, points, volume

__all__ = [
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
]

_BITS = {2: "i2", 4: "i4", 8: "i8"}


# Kernels ------------------------------------------------------------------------------------------


def _lowest(dtype: Any) -> Any:
    """What no number is below."""
    return (
        -math.inf
        if dtype.kind in "fV"
        else (0 if dtype.kind == "u" else -(2 ** (8 * dtype.itemsize - 1)))
    )


def _unmatched(dtype: Any) -> Any:
    """What equals no maximum."""
    return math.nan if dtype.kind in "fV" else _lowest(dtype)


def _maxima(
    xp: Namespace,
    input: Array,
    geometry: Geometry,
) -> Array:
    """The largest of each window, one dimension after the other."""
    kernel, stride, pads, dilation, number = geometry
    dims = len(kernel)
    best = padded(xp, input, pads, _lowest(input.dtype))
    for dim in range(dims):
        behind = (slice(None),) * (dims - dim - 1)
        parts = [
            best[(..., along(point, number[dim], stride[dim], dilation[dim]), *behind)]
            for point in range(kernel[dim])
        ]
        best = parts[0]
        if len(parts) > 1:
            best = xp.maximum(parts[0], parts[1])
        for part in parts[2:]:
            xp.maximum(best, part, out=best)
    return best if best.flags.c_contiguous and best.base is None else best.copy()


@primitive(batch=together, has_out=False)
def _max_places(
    xp: Namespace,
    input: Array,
    maxima: Array,
    geometry: Geometry,
) -> Array:
    """Positions of the maxima: the first in the window, or its last NaN."""
    kernel, stride, pads, dilation, number = geometry
    size = input.shape[-len(kernel) :]
    steps = [volume(size[dim + 1 :]) for dim in range(len(size))]
    whole = padded(xp, input, pads, _unmatched(input.dtype))
    spots = list(points(kernel, number, stride, dilation))
    moves = [
        sum(p * d * step for p, d, step in zip(point, dilation, steps, strict=True))
        for point, _ in spots
    ]
    found = xp.zeros(maxima.shape, xp.int64)
    for (_, place), move in zip(reversed(spots), reversed(moves), strict=True):
        xp.copyto(found, move, where=whole[place] == maxima)
    if has_nan(maxima):
        missing = padded(xp, xp.isnan(input), pads, value=False)
        for (_, place), move in zip(spots, moves, strict=True):
            xp.copyto(found, move, where=missing[place])
    for dim, step in enumerate(steps):
        starts = (xp.arange(number[dim]) * stride[dim] - pads[dim][0]) * step
        found += starts.reshape(-1, *(1,) * (len(size) - dim - 1))
    return found


def _apart(kernel: Sizes, stride: Sizes, dilation: Sizes) -> bool:
    """Whether no element is in two windows."""
    return all(s > d * (k - 1) for k, s, d in zip(kernel, stride, dilation, strict=True))


@primitive(
    gradient=lambda g, input, maxima, geometry: _at_maxima(g, input, maxima, geometry),
    jvp=lambda d_gradient, input, maxima, geometry: _to_maxima(d_gradient, input, maxima, geometry),
    batch=together,
    has_out=False,
)
def _to_maxima(
    xp: Namespace,
    gradient: Array,
    input: Array,
    maxima: Array,
    geometry: Geometry,
) -> Array:
    """Put `gradient` where the maxima of `input` are, zeros elsewhere."""
    kernel, stride, pads, dilation, number = geometry
    size = input.shape[-len(kernel) :]
    if has_nan(maxima):
        places = _max_places.op.forward(xp, input, maxima, geometry)  # type: ignore[attr-defined]
        return put_places.op.forward(xp, gradient, places, size)  # type: ignore[attr-defined]
    whole = padded(xp, input, pads, math.nan)
    out = xp.zeros(whole.shape, gradient.dtype)
    # Products of the bits with 0 or 1 keep what infinity times 0 would lose.
    bits = _BITS[gradient.dtype.itemsize]
    rest, target = gradient.copy().view(bits), out.view(bits)
    apart = _apart(kernel, stride, dilation)
    for _, place in points(kernel, number, stride, dilation):
        chosen = whole[place] == maxima
        if apart:
            own = xp.multiply(rest, chosen, out=target[place])
        else:
            own = rest * chosen
            out[place] += own.view(gradient.dtype)
        rest -= own
    return out if whole.shape == input.shape else out[inner(pads, size)].copy()


@primitive(
    tangent=lambda g, input, maxima, geometry: _to_maxima(g, input, maxima, geometry),
    jvp=lambda d_tangent, input, maxima, geometry: _at_maxima(d_tangent, input, maxima, geometry),
    batch=together,
    has_out=False,
)
def _at_maxima(
    xp: Namespace,
    tangent: Array,
    input: Array,
    maxima: Array,
    geometry: Geometry,
) -> Array:
    """`tangent` where the maxima of `input` are: the adjoint of `_to_maxima`."""
    places = _max_places.op.forward(xp, input, maxima, geometry)  # type: ignore[attr-defined]
    return take_places.op.forward(xp, tangent, places, len(geometry.kernel))


# One operator for each number of dimensions, so that the graph shows the name that torch's shows.
_RULES: dict[str, Any] = {
    "input": lambda g, input, out, geometry: _to_maxima(g, input, out, geometry),
    "jvp": lambda d_input, input, out, geometry: _at_maxima(d_input, input, out, geometry),
    "has_out": False,
}
_POOLS = {
    dims: primitive(**_RULES, name=f"_max_pool{dims}d", node=f"MaxPool{dims}DWithIndicesBackward0")(
        _maxima
    )
    for dims in (1, 2, 3)
}
_ADAPTIVE_POOLS = {
    dims: primitive(
        **_RULES, name=f"_adaptive_max_pool{dims}d", node=f"AdaptiveMaxPool{dims}DBackward0"
    )(_maxima)
    for dims in (1, 2, 3)
}


# Plain windows ------------------------------------------------------------------------------------


def _max_pool(
    dims: int,
    input: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    op = f"max_pool{dims}d"
    geometry = pool_geometry(op, dims, input, kernel_size, stride, padding, dilation, ceil_mode)
    _check_dtype(op, input)
    maxima = _POOLS[dims](input, geometry)
    return (maxima, _max_places(input, maxima, geometry)) if return_indices else maxima


def _check_dtype(op: str, input: Tensor) -> None:
    if input._array.dtype.kind in "bc":
        raise unsupported(op, input._array)


def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest of each window of lines, and where it is if `return_indices`."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest of each window of images, and where it is if `return_indices`.

    >>> import pullback as torch
    >>> x = torch.arange(16.0).reshape(1, 4, 4)
    >>> torch.nn.functional.max_pool2d(x, 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest of each window of volumes, and where it is if `return_indices`."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool1d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool1d` with `return_indices`."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool2d` with `return_indices`."""
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """`max_pool3d` with `return_indices`."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, True)


# Adaptive windows ---------------------------------------------------------------------------------


@primitive(has_out=False)
def _adaptive_places(xp: Namespace, input: Array, number: Sizes) -> Array:
    """Positions of the maxima of adaptive windows."""
    size = input.shape[-len(number) :]
    position = xp.zeros((1,) * 2 * len(number), xp.int64)
    for dim, (n, o) in enumerate(zip(size, number, strict=True)):
        bounds = adaptive_bounds(n, o)
        longest = max((end - start for start, end in bounds), default=1)
        # A shorter window sees its last element more than once.
        seen = [[min(start + i, end - 1) for i in range(longest)] for start, end in bounds]
        rows = xp.array(seen, xp.int64).reshape(o, longest)
        shape = [1] * 2 * len(number)
        shape[dim], shape[len(number) + dim] = o, longest
        position = position * n + rows.reshape(shape)
    windows = position.reshape(*number, volume(position.shape[len(number) :]))
    return window_places(xp, input, windows, len(number))


def _adaptive_max_pool(dims: int, input: Any, output_size: Any, return_indices: bool) -> Any:
    op = f"adaptive_max_pool{dims}d"
    number = adaptive_sizes(op, dims, input, output_size)
    _check_dtype(op, input)
    size = tuple(input.shape[-dims:])
    if 0 not in number and not any(map(int.__mod__, size, number)):
        kernel = tuple(map(int.__floordiv__, size, number))
        geometry = Geometry(kernel, kernel, ((0, 0),) * dims, (1,) * dims, number)
        maxima = _ADAPTIVE_POOLS[dims](input, geometry)
        return (maxima, _max_places(input, maxima, geometry)) if return_indices else maxima
    places = _adaptive_places(input, number)
    maxima = _ADAPTIVE_TAKES[dims](input, places, dims)
    return (maxima, places) if return_indices else maxima


_ADAPTIVE_TAKES = {
    dims: declare_take(f"_adaptive_take{dims}d", f"AdaptiveMaxPool{dims}DBackward0")
    for dims in (1, 2, 3)
}


def adaptive_max_pool1d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest of each of `output_size` windows that cover the lines evenly."""
    return _adaptive_max_pool(1, input, output_size, return_indices)


def adaptive_max_pool2d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest of each of `output_size` windows that cover the images evenly.

    >>> import pullback as torch
    >>> torch.nn.functional.adaptive_max_pool2d(torch.arange(16.0).reshape(1, 4, 4), (1, None))
    tensor([[[12., 13., 14., 15.]]])
    """
    return _adaptive_max_pool(2, input, output_size, return_indices)


def adaptive_max_pool3d(input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest of each of `output_size` windows that cover the volumes evenly."""
    return _adaptive_max_pool(3, input, output_size, return_indices)


def adaptive_max_pool1d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> Any:
    """`adaptive_max_pool1d` with `return_indices`."""
    return _adaptive_max_pool(1, input, output_size, return_indices=True)


def adaptive_max_pool2d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> Any:
    """`adaptive_max_pool2d` with `return_indices`."""
    return _adaptive_max_pool(2, input, output_size, return_indices=True)


def adaptive_max_pool3d_with_indices(
    input: Any, output_size: Any, return_indices: bool = False
) -> Any:
    """`adaptive_max_pool3d` with `return_indices`."""
    return _adaptive_max_pool(3, input, output_size, return_indices=True)
