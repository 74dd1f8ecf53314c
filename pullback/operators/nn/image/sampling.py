"""grid_sample: images looked up at any positions; affine_grid makes positions.

A sample is a sum of neighbours times weights. It is linear in the image, and its derivative by the
grid is one by the weights' derivatives: three operators, which know how often the weights are
differentiated, are each other's derivatives at every order. Their arithmetic is in
kernels.py.
"""

from __future__ import annotations

import warnings
from typing import Any

from pullback.core.errors import unsupported
from pullback.core.origin import stacklevel
from pullback.core.tensor import Tensor
from pullback.operators.arrays.windows import Sizes, check_tensor, volume
from pullback.operators.batching import together
from pullback.operators.declare import Array, Namespace, linear, primitive
from pullback.operators.linalg.products import total
from pullback.operators.nn.image.kernels import How, added_up, looked_up, slopes

FOUND_IN = {
    "torch": "affine_grid_generator=affine_grid grid_sampler grid_sampler_2d grid_sampler_3d",
    "nn.functional": "affine_grid grid_sample",
}

# The operator, and what its derivatives are made of ----------------------------------------------


def _in_single(xp: Namespace, kernel: Any, arrays: list[Array], *options: Any) -> Array:
    """Half precision is computed in single."""
    dtype = arrays[0].dtype
    if dtype.itemsize != 2:
        return kernel(xp, *arrays, *options)
    return kernel(xp, *(one.astype(xp.float32) for one in arrays), *options).astype(dtype)


def _parts(g: Any, how: How) -> list[tuple[Any, How]]:
    """The gradient (or tangent) of a grid along each dimension, with what it is multiplied by."""
    dims = len(how.orders)
    shape = tuple(g.shape)[:-1]
    over_channels = (*shape[:-dims], 1, *shape[-dims:])
    return [
        (g[..., dims - 1 - dim].reshape(over_channels), how.differentiated(dim))
        for dim in range(dims)
    ]


def _along(input: Any, grid: Any, way: Any, how: How) -> Any:
    """How samples change as the grid goes `way`."""
    return total(*(part * _sample(input, grid, each) for part, each in _parts(way, how)))


def _put_along(gradient: Any, grid: Any, way: Any, size: Sizes, how: How) -> Any:
    """How `_put` changes as the grid goes `way`: the adjoint of `_along` by the input."""
    return total(*(_put(gradient * part, grid, size, each) for part, each in _parts(way, how)))


def _slopes_along(gradient: Any, input: Any, grid: Any, way: Any, how: How) -> Any:
    return total(*(_slopes(gradient * part, input, grid, each) for part, each in _parts(way, how)))


def _declared(name: str, node: str) -> Any:
    """Sampling under the name that the graph is to show."""
    return primitive(
        input=lambda g, grid, input_shape, how: _put(g, grid, input_shape[-len(how.orders) :], how),
        grid=lambda g, input, grid, how: _slopes(g, input, grid, how),
        jvp=lambda d_input, d_grid, input, grid, how: total(
            d_input is not None and _sample(d_input, grid, how),
            d_grid is not None and _along(input, grid, d_grid, how),
        ),
        batch=together,
        has_out=False,
        name=name,
        node=node,
    )(_samples)


def _samples(xp: Namespace, input: Array, grid: Array, how: How) -> Array:
    return _in_single(xp, looked_up, [input, grid], how)


_sample: Any = _declared("_sample", "SampleBackward0")
_SAMPLERS = {
    dims: _declared(f"_grid_sampler_{dims}d", f"GridSampler{dims}DBackward0") for dims in (2, 3)
}


@primitive(
    gradient=lambda g, grid, how: _sample(g, grid, how),
    grid=lambda g, gradient, grid, how: _slopes(gradient, g, grid, how),
    jvp=lambda d_gradient, d_grid, gradient, grid, size, how: total(
        d_gradient is not None and _put(d_gradient, grid, size, how),
        d_grid is not None and _put_along(gradient, grid, d_grid, size, how),
    ),
    batch=together,
    has_out=False,
)
def _put(xp: Namespace, gradient: Array, grid: Array, size: Sizes, how: How) -> Array:
    """The adjoint of `_sample` with respect to its input, whose size was `size`."""
    return _in_single(xp, added_up, [gradient, grid], size, how)


@primitive(
    gradient=lambda g, input, grid, how: _along(input, grid, g, how),
    input=lambda g, gradient, grid, input_shape, how: _put_along(
        gradient, grid, g, input_shape[-len(how.orders) :], how
    ),
    grid=lambda g, gradient, input, grid, how: _slopes_along(gradient, input, grid, g, how),
    jvp=lambda d_gradient, d_input, d_grid, gradient, input, grid, how: total(
        d_gradient is not None and _slopes(d_gradient, input, grid, how),
        d_input is not None and _slopes(gradient, d_input, grid, how),
        d_grid is not None and _slopes_along(gradient, input, grid, d_grid, how),
    ),
    batch=together,
    has_out=False,
)
def _slopes(xp: Namespace, gradient: Array, input: Array, grid: Array, how: How) -> Array:
    """The adjoint of `_sample` with respect to its grid."""
    return _in_single(xp, slopes, [gradient, input, grid], how)


# Public forms -------------------------------------------------------------------------------------

_MODES = ("bilinear", "nearest", "bicubic")
_PADDING_MODES = ("zeros", "border", "reflection")


def _check(input: Any, grid: Any, mode: str) -> None:
    check_tensor("grid_sample", input, 4, 5)
    check_tensor("grid_sample (grid)", grid, input.ndim)
    x, places = input._array, grid._array
    dims = x.ndim - 2
    fits = places.shape[0] == x.shape[0] and places.shape[-1] == dims and 0 not in x.shape[2:]
    usual = fits and x.dtype.kind == "f" and (mode != "bicubic" or dims == 2)
    if usual and places.dtype is x.dtype:
        return
    shapes = f"input of shape {x.shape} and grid of shape {places.shape}"
    if places.shape[0] != x.shape[0] or places.shape[-1] != dims:
        raise RuntimeError(
            f"grid_sample: {shapes} do not fit: the grid must be (n, ..., {dims}), n as in input."
        )
    if 0 in x.shape[2:]:
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
    if x.dtype.kind not in "fV":
        raise unsupported("grid_sample", x)


def _warn_of_a_guess(name: str) -> None:
    warnings.warn(
        f"{name} without align_corners takes False; say which is meant.",
        UserWarning,
        stacklevel=stacklevel(),
    )


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
    >>> torch.nn.functional.grid_sample(x, torch.zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[2.5000]]]])
    """
    if mode not in _MODES:
        raise ValueError(f"grid_sample: mode must be one of {_MODES}, got {mode!r}.")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(
            f"grid_sample: padding_mode must be one of {_PADDING_MODES}, got {padding_mode!r}."
        )
    _check(input, grid, mode)
    if align_corners is None:
        _warn_of_a_guess("grid_sample")
    dims = input._array.ndim - 2
    return _SAMPLERS[dims](input, grid, How(mode, padding_mode, bool(align_corners), (0,) * dims))


def grid_sampler(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`grid_sample` with its modes as numbers.

    >>> import pullback as torch
    >>> torch.grid_sampler(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), 0, 0, False)
    tensor([[[[1.]]]])
    """
    return grid_sample(
        input, grid, _MODES[interpolation_mode], _PADDING_MODES[padding_mode], align_corners
    )


def grid_sampler_2d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`grid_sampler` of images.

    >>> import pullback as torch
    >>> torch.grid_sampler_2d(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), 0, 0, False)
    tensor([[[[1.]]]])
    """
    check_tensor("grid_sampler_2d", input, 4)
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Any:
    """`grid_sampler` of volumes.

    >>> import pullback as torch
    >>> image, places = torch.ones(1, 1, 2, 2, 2), torch.zeros(1, 1, 1, 1, 3)
    >>> torch.grid_sampler_3d(image, places, 0, 0, False).item()
    1.0
    """
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


# Positions are a constant times the matrices. Nodes keep sizes, and make the constant anew.


@linear(
    theta=lambda g, size, align_corners: _affine_matrices(g, size, align_corners),
    node="AffineGridGeneratorBackward0",
    has_out=False,
)
def _affine_places(xp: Namespace, theta: Array, size: Sizes, align_corners: bool) -> Array:
    return _in_single(xp, _moved, [theta], size, align_corners)


@linear(
    gradient=lambda g, size, align_corners: _affine_places(g, size, align_corners), has_out=False
)
def _affine_matrices(xp: Namespace, gradient: Array, size: Sizes, align_corners: bool) -> Array:
    """The adjoint of `_affine_places`."""
    return _in_single(xp, _matrices, [gradient], size, align_corners)


def _moved(xp: Namespace, theta: Array, size: Sizes, align_corners: bool) -> Array:
    base = _base_grid(xp, size, theta.dtype, align_corners)
    places = base @ theta.swapaxes(-1, -2)
    return places.reshape((*theta.shape[:-2], *size, len(size)))


def _matrices(xp: Namespace, gradient: Array, size: Sizes, align_corners: bool) -> Array:
    base = _base_grid(xp, size, gradient.dtype, align_corners)
    dims = len(size)
    rows = gradient.reshape((*gradient.shape[: -dims - 1], volume(size), dims))
    return rows.swapaxes(-1, -2) @ base


def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """Positions for `grid_sample`: those of an image of `size`, moved by matrices `theta`.

    >>> import pullback as torch
    >>> torch.nn.functional.affine_grid(torch.eye(2, 3)[None], (1, 1, 1, 2), align_corners=False)
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
    if align_corners is None:
        _warn_of_a_guess("affine_grid")
    elif align_corners and 1 in size[2:]:
        warnings.warn(
            f"affine_grid: with align_corners=True, a side of size 1 (size {size}) has its only "
            "position in the middle, at 0.",
            UserWarning,
            stacklevel=stacklevel(),
        )
    return _affine_places(theta, size[2:], bool(align_corners))
