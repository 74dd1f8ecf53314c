"""Shapes changed and arrays joined, as the standard writes it; and the broadcasting of arrays."""

from __future__ import annotations

from collections.abc import Sequence

import pullback as torch
from pullback import Tensor

from ._dtypes import check_array, together

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
]

Axes = int | tuple[int, ...]


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """As `torch.broadcast_tensors`, each with its own dtype."""
    return list(torch.broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """As `torch.broadcast_to`."""
    check_array("broadcast_to", x)
    return torch.broadcast_to(x, tuple(shape))


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """As `torch.cat`; with `axis=None` the arrays are flattened first.

    >>> import pullback.array_api as xp
    >>> xp.concat([xp.ones((1, 2)), xp.zeros(1)], axis=None)
    tensor([1., 1., 0.])
    """
    joined = together("concat", *arrays)
    if axis is None:
        return torch.cat([x.reshape(-1) for x in joined])
    # torch leaves empty vectors out, whatever the shape of the others.
    if len({x.ndim for x in joined}) > 1:
        raise ValueError(f"concat: shapes {[tuple(x.shape) for x in joined]} differ in length.")
    return torch.cat(joined, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """As `torch.stack`."""
    return torch.stack(together("stack", *arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """As `torch.unbind`."""
    check_array("unstack", x)
    return tuple(torch.unbind(x, axis))


def expand_dims(x: Tensor, /, *, axis: Axes = 0) -> Tensor:
    """As `torch.unsqueeze`; several axes are places in the result.

    >>> import pullback.array_api as xp
    >>> xp.expand_dims(xp.ones(2), axis=(0, 2)).shape
    torch.Size([1, 2, 1])
    """
    check_array("expand_dims", x)
    axes = axis if isinstance(axis, tuple) else (axis,)
    ndim = x.ndim + len(axes)
    for one in axes:
        if not -ndim <= one < ndim:
            raise IndexError(f"expand_dims: axis {one} is not in a result of {ndim} dimensions.")
    places = sorted({one % ndim for one in axes})
    if len(places) < len(axes):
        raise ValueError(f"expand_dims: an axis comes twice in {axes}.")
    for one in places:
        x = torch.unsqueeze(x, one)
    return x


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """As `torch.squeeze`, but ValueError where an axis has another size than 1.

    >>> import pullback.array_api as xp
    >>> xp.squeeze(xp.ones((2, 1)), 1)
    tensor([1., 1.])
    """
    check_array("squeeze", x)
    axes = axis if isinstance(axis, tuple) else (axis,)
    if any(x.shape[one] != 1 for one in axes):
        raise ValueError(f"squeeze: an axis of {axes} has another size than 1 in {tuple(x.shape)}.")
    return torch.squeeze(x, axes)


def flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """As `torch.flip`; all axes unless told otherwise."""
    check_array("flip", x)
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return torch.flip(x, axes)


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """As `torch.moveaxis`."""
    check_array("moveaxis", x)
    return torch.moveaxis(x, source, destination)


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """As `torch.permute`."""
    check_array("permute_dims", x)
    return torch.permute(x, tuple(axes))


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """As `torch.reshape`; `copy=False` is a ValueError where no view has that shape.

    >>> import pullback.array_api as xp
    >>> xp.reshape(xp.arange(4), (2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    check_array("reshape", x)
    if copy:
        return torch.reshape(x.clone(), tuple(shape))
    if copy is False:
        try:
            return x.view(tuple(shape))
        except RuntimeError as error:
            raise ValueError(f"reshape: not without a copy. {error}") from None
    return torch.reshape(x, tuple(shape))


def roll(x: Tensor, /, shift: Axes, *, axis: Axes | None = None) -> Tensor:
    """As `torch.roll`; one shift serves several axes."""
    check_array("roll", x)
    if axis is None:
        return torch.roll(x, shift)
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    return torch.roll(x, shifts, axes)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """As `torch.repeat_interleave`."""
    check_array("repeat", x)
    if isinstance(repeats, Tensor) and repeats.ndim == 1 and repeats.shape[0] == 1:
        repeats = repeats[0]
    return torch.repeat_interleave(x, repeats, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """As `torch.tile`."""
    check_array("tile", x)
    return torch.tile(x, tuple(repetitions))
