"""grid_sample: images looked up at any positions; affine_grid makes positions.

A sample is a sum of looked-up neighbours times weights; the weights carry the gradient of the grid,
the look-ups that of the image, so derivatives of every order come from the parts.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy

from pullback.core.tensor import Tensor, wrap
from pullback.operators.arithmetic import unsupported, zeros_of
from pullback.operators.batching import together
from pullback.operators.declare import Array, Arrays, Namespace, elementwise, primitive
from pullback.operators.naming import shown_as
from pullback.operators.products import matmul
from pullback.operators.rounding import floor, round
from pullback.operators.windows import Sizes, check_tensor, volume

__all__ = [
    "affine_grid",
    "affine_grid_generator",
    "grid_sample",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
]

# Positions ----------------------------------------------------------------------------------------


def _bounded(
    xp: Namespace, place: Array, size: int, padding_mode: str, align_corners: bool
) -> tuple[Array, Any]:
    """Positions brought into the image by the padding mode, and the slope of that."""
    slope: Any = 1
    if padding_mode == "zeros":
        return place, slope
    if padding_mode == "reflection":
        place, slope = _reflected(xp, place, size, align_corners)
    inside = (place > 0) & (place < size - 1)
    return xp.clip(place, 0, size - 1), slope * inside


def _reflected(xp: Namespace, place: Array, size: int, align_corners: bool) -> tuple[Array, Any]:
    """Positions folded at the image's borders: the outer elements, or half an element beyond."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if not span:
        return xp.zeros_like(place), 0
    away = place - low
    distance = xp.abs(away)
    flips = xp.floor(distance / span)
    rest = distance - flips * span
    even = flips % 2 == 0
    slope = xp.where(even, 1, -1) * xp.where(away < 0, -1, 1)
    return xp.where(even, rest, span - rest) + low, slope


def _plain(place: Array, size: int, align_corners: bool) -> Array:
    """From -1 (the first element) and 1 (the last one) to element numbers."""
    return (place + 1) * ((size - 1) / 2) if align_corners else (place + 1) * (size / 2) - 0.5


@elementwise(method=False, has_out=False)
def _slope(xp: Namespace, input: Array, size: int, padding_mode: str, align_corners: bool) -> Array:
    """The derivative of `_position`; constant between kinks."""
    place = _plain(input, size, align_corners)
    slope = _bounded(xp, place, size, padding_mode, align_corners)[1]
    scale = (size - 1) / 2 if align_corners else size / 2
    return xp.asarray(xp.broadcast_to(slope, input.shape) * scale, input.dtype)


@elementwise(
    input=lambda g, input, size, padding_mode, align_corners: (
        g * _slope(input, size, padding_mode, align_corners)
    ),
    method=False,
    has_out=False,
)
def _position(
    xp: Namespace, input: Array, size: int, padding_mode: str, align_corners: bool
) -> Array:
    """Where the grid points to, as an element number along one dimension."""
    place = _plain(input, size, align_corners)
    return xp.asarray(_bounded(xp, place, size, padding_mode, align_corners)[0], input.dtype)


@primitive(batch=together, has_out=False)
def _cells(
    xp: Namespace,
    positions: Arrays,
    moves: Sizes,
    size: Sizes,
    padding_mode: str,
    align_corners: bool,
) -> Array:
    """Elements at `moves` from the positions' floor, counted over the image; -1 outside."""
    cells: Any = 0
    outside: Any = False
    for position, move, n in zip(positions, moves, size, strict=True):
        place = xp.floor(position) + move
        place = _bounded(xp, place, n, padding_mode, align_corners)[0]
        outside = outside | ~((place >= 0) & (place <= n - 1))
        cells = cells * n + xp.where(outside, 0, place).astype(xp.int64)
    return xp.where(outside, -1, cells)


# Look-ups -----------------------------------------------------------------------------------------


@primitive(
    input=lambda g, cells, input_shape, dims: _add_up(g, cells, input_shape[-dims:]),
    jvp=lambda d_input, cells, dims: _look_up(d_input, cells, dims),
    batch=together,
    has_out=False,
)
def _look_up(xp: Namespace, input: Array, cells: Array, dims: int) -> Array:
    """`input` (..., channels, *size) at `cells` (..., *number); 0 for cells outside."""
    *lead, channels = input.shape[: input.ndim - dims]
    images, length = math.prod(lead), volume(input.shape[-dims:])
    number = cells.shape[len(lead) :]
    # All channels of an element side by side: one place to look for, one run of memory to copy.
    rows = input.reshape(images, channels, length).swapaxes(1, 2).reshape(-1, channels)
    each = cells.reshape(images, volume(number))
    found = rows.take((xp.maximum(each, 0) + xp.arange(images)[:, None] * length).reshape(-1), 0)
    found[each.reshape(-1) < 0] = 0
    return found.reshape(*lead, *number, channels).transpose(
        *range(len(lead)), -1, *range(len(lead), len(lead) + dims)
    )


@primitive(
    input=lambda g, cells, input_shape, dims: _add_up(g, cells, input_shape[-dims:]),
    grid=lambda g, grid: zeros_of(grid),
    jvp=lambda d_input, input, cells, dims: _look_up(
        zeros_of(input) if d_input is None else d_input, cells, dims
    ),
    batch=together,
    has_out=False,
)
def _nearest(xp: Namespace, input: Array, cells: Array, grid: Array, dims: int) -> Array:
    """`_look_up` where the grid counts as an input: its gradient is 0."""
    return _look_up.op.forward(xp, input, cells, dims)  # type: ignore[attr-defined]


@primitive(
    gradient=lambda g, cells, size: _look_up(g, cells, len(size)),
    jvp=lambda d_gradient, cells, size: _add_up(d_gradient, cells, size),
    batch=together,
    has_out=False,
)
def _add_up(xp: Namespace, gradient: Array, cells: Array, size: Sizes) -> Array:
    """The adjoint of `_look_up`: add the gradient up at the cells it comes from."""
    *lead, channels = gradient.shape[: gradient.ndim - len(size)]
    images, length = math.prod(lead), volume(size)
    out = xp.zeros((*lead, channels, *size), gradient.dtype)
    each = cells.reshape(images, 1, volume(cells.shape[len(lead) :]))
    starts = (xp.arange(images * channels) * length).reshape(images, channels, 1)
    kept = xp.broadcast_to(each >= 0, (images, channels, each.shape[2]))
    xp.add.at(out.reshape(-1), (starts + each)[kept], gradient.reshape(kept.shape)[kept])
    return out


def _linear_weights(part: Any) -> tuple[Any, ...]:
    return 1 - part, part


def _cubic_weights(part: Any) -> tuple[Any, ...]:
    a = -0.75

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return far(part + 1), near(part), near(1 - part), far(2 - part)


def _sampled(input: Any, grid: Any, mode: str, padding_mode: str, align_corners: bool) -> Any:
    size = tuple(input.shape[2:])
    dims = len(size)
    # Cubic weights need the true position; the neighbours are brought into the image one by one.
    first = "zeros" if mode == "bicubic" else padding_mode
    last = padding_mode if mode == "bicubic" else "zeros"
    positions = [
        _position(grid[..., dims - 1 - dim], n, first, align_corners) for dim, n in enumerate(size)
    ]
    if mode == "nearest":
        cells = _cells([round(p) for p in positions], (0,) * dims, size, last, align_corners)
        return _nearest(input, cells, grid, dims).contiguous()
    parts = [position - floor(position) for position in positions]
    cubic = mode == "bicubic"
    weights = [_cubic_weights(part) if cubic else _linear_weights(part) for part in parts]
    total = None
    for corner in itertools.product(range(4 if cubic else 2), repeat=dims):
        moves = tuple(c - 1 for c in corner) if cubic else corner
        weight = weights[0][corner[0]]
        for dim in range(1, dims):
            weight = weight * weights[dim][corner[dim]]
        found = _look_up(input, _cells(positions, moves, size, last, align_corners), dims)
        term = found * weight.unsqueeze(1)
        total = term if total is None else total + term
    return total if total is None else total.contiguous()


# Public forms -------------------------------------------------------------------------------------

_MODES = ("bilinear", "nearest", "bicubic")
_PADDING_MODES = ("zeros", "border", "reflection")


def _check(input: Any, grid: Any, mode: str) -> None:
    check_tensor("grid_sample", input, 4, 5)
    check_tensor("grid_sample (grid)", grid, input.ndim)
    dims = input.ndim - 2
    shapes = f"input of shape {tuple(input.shape)} and grid of shape {tuple(grid.shape)}"
    if grid.shape[0] != input.shape[0] or grid.shape[-1] != dims:
        raise RuntimeError(
            f"grid_sample: {shapes} do not fit: the grid must be (n, ..., {dims}), n as in input."
        )
    if 0 in tuple(input.shape[2:]):
        raise RuntimeError(f"grid_sample: {shapes}: an image without elements cannot be sampled.")
    if mode == "bicubic" and dims != 2:
        raise RuntimeError(
            f"grid_sample: mode 'bicubic' is for images of 4 dimensions; got {shapes}."
        )
    if grid.dtype is not input.dtype:
        raise RuntimeError(
            f"grid_sample: input is {input.dtype}, grid is {grid.dtype}; convert one of them with "
            ".to()."
        )
    if input._array.dtype.kind not in "fV":
        raise unsupported("grid_sample", input._array)


def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """`input` at the positions of `grid`, whose numbers go from -1 to 1 across the image.

    >>> import pullback as torch
    >>> x = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> torch.nn.functional.grid_sample(x, torch.zeros(1, 1, 1, 2))
    tensor([[[[2.5000]]]])
    """
    if mode not in _MODES:
        raise ValueError(f"grid_sample: mode must be one of {_MODES}, got {mode!r}.")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(
            f"grid_sample: padding_mode must be one of {_PADDING_MODES}, got {padding_mode!r}."
        )
    _check(input, grid, mode)
    result = _sampled(input, grid, mode, padding_mode, bool(align_corners))
    return shown_as(f"GridSampler{input.ndim - 2}DBackward0", result)


def grid_sampler(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`grid_sample` with its modes as numbers."""
    return grid_sample(
        input, grid, _MODES[interpolation_mode], _PADDING_MODES[padding_mode], align_corners
    )


def grid_sampler_2d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`grid_sampler` of images."""
    check_tensor("grid_sampler_2d", input, 4)
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`grid_sampler` of volumes."""
    check_tensor("grid_sampler_3d", input, 5)
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def _base_grid(xp: Namespace, size: Sizes, dtype: Any, align_corners: bool) -> Array:
    """The positions of an image's own elements with a 1 behind each, (elements, dims + 1)."""
    axes = []
    for n in size:
        steps = xp.linspace(-1.0, 1.0, n) if n > 1 else xp.zeros(n)
        axes.append(steps if align_corners else steps * ((n - 1) / n))
    grids = [*reversed(xp.meshgrid(*axes, indexing="ij")), xp.ones(size)]
    return xp.stack(grids, -1).reshape(volume(size), len(size) + 1).astype(dtype)


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """Positions for `grid_sample`: those of an image of `size`, moved by matrices `theta`.

    >>> import pullback as torch
    >>> torch.nn.functional.affine_grid(torch.eye(2, 3)[None], (1, 1, 1, 2))
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    if not isinstance(theta, Tensor) or not theta.dtype.is_floating_point:
        shown = getattr(theta, "dtype", type(theta).__name__)
        raise ValueError(f"affine_grid: theta must be a floating-point tensor, got {shown}.")
    size = tuple(size)
    if len(size) not in (4, 5):
        raise NotImplementedError(
            f"affine_grid: size must be (n, channels, height, width) or have depth too, got {size}."
        )
    dims = len(size) - 2
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (dims, dims + 1):
        raise ValueError(
            f"affine_grid: theta must have shape (n, {dims}, {dims + 1}) for size {size}, got "
            f"{tuple(theta.shape)}."
        )
    if min(size) < 1:
        raise ValueError(f"affine_grid: all of size must be positive, got {size}.")
    if theta.shape[0] != size[0]:
        raise RuntimeError(
            f"affine_grid: {theta.shape[0]} matrices for a batch of {size[0]} (size {size})."
        )
    base = wrap(_base_grid(numpy, size[2:], theta._array.dtype, bool(align_corners)))
    places = matmul(base, theta.mT).reshape((size[0], *size[2:], dims))
    return shown_as("AffineGridGeneratorBackward0", places)


affine_grid_generator = affine_grid
