"""The same elements in other places: flipped, rolled and repeated, in new memory."""

from __future__ import annotations

from typing import Any

from pullback.operators import batch_shapes
from pullback.operators.batching import per_dim
from pullback.operators.declare import Array, Dims, Namespace, Shape, linear
from pullback.operators.options import as_shape
from pullback.operators.shape import spread

__all__ = ["flip", "repeat", "roll", "tile"]


@linear(
    batch=per_dim("dims"), input=lambda g, dims: _flip(g, dims), node="FlipBackward0", has_out=False
)
def _flip(xp: Namespace, input: Array, dims: Dims) -> Array:
    turned = tuple(
        slice(None, None, -1) if dim in dims else slice(None) for dim in range(input.ndim)
    )
    return input[turned].copy()


def flip(input: Any, dims: Any) -> Any:
    """Reverse the order of the elements along `dims`."""
    return _flip(input, dims)


spread("flip", flip)


def _opposite(shifts: Any) -> Any:
    return -shifts if isinstance(shifts, int) else tuple(-shift for shift in shifts)


@linear(
    batch=batch_shapes.rolled,
    input=lambda g, shifts, dims: roll(g, _opposite(shifts), dims),
    has_out=False,
)
def roll(xp: Namespace, input: Array, shifts: Any, dims: Any = None) -> Array:
    """Shift elements along `dims`, around the end; without dims over the flattened tensor."""
    if dims is None or dims == ():
        return xp.roll(input, shifts)
    counts = [len(one) if isinstance(one, tuple | list) else 1 for one in (shifts, dims)]
    if counts[0] != counts[1]:
        raise RuntimeError(f"roll: {counts[0]} shifts for {counts[1]} dims; give one shift each.")
    return xp.roll(input, shifts, dims)


def repeat(input: Any, sizes: Any) -> Any:
    """Tile the tensor: `sizes` times along each dimension, in new memory."""
    sizes = as_shape(sizes, 0, "repeat")
    extra = len(sizes) - input.ndim
    if extra < 0:
        raise RuntimeError(
            f"repeat: {len(sizes)} counts {sizes} for a tensor of {input.ndim} dimensions; give "
            "at least one each."
        )
    return _repeat(input, sizes)


def _repeat_adjoint(g: Any, input_shape: Any, sizes: Any) -> Any:
    """Sum over the copies: fold each dimension into (copies, size) and sum the copies away."""
    extra = len(sizes) - len(input_shape)
    shape = (1,) * extra + tuple(input_shape)
    folded = [part for n, size in zip(sizes, shape, strict=True) for part in (n, size)]
    dims = tuple(range(0, 2 * len(sizes), 2))
    return g.reshape(tuple(folded)).sum(dims).reshape(tuple(input_shape))


@linear(
    batch=batch_shapes.tiled,
    input=lambda g, input_shape, sizes: _repeat_adjoint(g, input_shape, sizes),
    node="RepeatBackward0",
    has_out=False,
)
def _repeat(xp: Namespace, input: Array, sizes: Shape) -> Array:
    return xp.tile(input, sizes)


spread("repeat", repeat)


def tile(input: Any, dims: Any) -> Any:
    """As `repeat`; missing leading counts are 1."""
    counts = as_shape(dims, 0, "tile")
    return repeat(input, (1,) * (input.ndim - len(counts)) + counts)


spread("tile", tile)
