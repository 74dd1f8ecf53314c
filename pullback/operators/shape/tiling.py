"""The same elements in other places: flipped, rolled and repeated, in new memory."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import namespace
from pullback.core.layout import empty_like
from pullback.core.tensor import Tensor
from pullback.operators.arrays.direct import concatenate
from pullback.operators.arrays.formats import joined_in_order
from pullback.operators.arrays.sums import sums
from pullback.operators.batching import per_dim
from pullback.operators.conditions import contiguous
from pullback.operators.declare import Array, Dims, Namespace, Shape, kernel, linear
from pullback.operators.options import as_dim, as_shape
from pullback.operators.shape import batch as batch_shapes
from pullback.operators.shape.reshaping import spread

FOUND_IN = {"torch": "flip tile"}

_WHOLE, _BACKWARDS = slice(None), slice(None, None, -1)


@linear(
    batch=per_dim("dims"),
    input=lambda g, dims: _flip(g, dims),
    node="FlipBackward0",
    has_out=False,
    aten="flip.default",
)
def _flip(xp: Namespace, input: Array, dims: Dims) -> Array:
    out = empty_like(xp, input)
    out[...] = _flipped(input, dims)
    return out


def _flipped(input: Array, dims: Any) -> Array:
    turned = [_WHOLE] * input.ndim
    for dim in dims if input.ndim else ():
        turned[dim] = _BACKWARDS
    return input[tuple(turned)]


@kernel(_flip, when=contiguous)
def _copied(input: Array, dims: Any) -> Array:
    return _flipped(input, dims).copy()


def flip(input: Any, dims: Any) -> Any:
    """Reverse the order of the elements along `dims`.

    >>> import pullback as torch
    >>> torch.flip(torch.tensor([[1, 2], [3, 4]]), (1,))
    tensor([[2, 1],
            [4, 3]])
    """
    if type(dims) is int:
        raise errors.not_a_sequence("flip", "dims", dims)
    return _flip(input, dims)


spread("flip", flip, _flip)


def _opposite(shifts: Any) -> Any:
    return -shifts if isinstance(shifts, int) else tuple([-shift for shift in shifts])


@linear(
    batch=batch_shapes.rolled,
    input=lambda g, shifts, dims: roll(g, _opposite(shifts), dims),
    has_out=False,
)
def roll(xp: Namespace, input: Array, shifts: Any, dims: Any = None) -> Array:
    """Shift elements along `dims`, around the end; without dims over the flattened tensor.

    >>> import pullback as torch
    >>> torch.roll(torch.tensor([1, 2, 3, 4]), 1)
    tensor([4, 1, 2, 3])
    """
    if type(shifts) is type(dims) is int and 0 <= dims < input.ndim:
        return _rolled(xp, input, shifts, dims)
    moves = (shifts,) if type(shifts) is int else as_shape(shifts, 0, "roll")
    places = () if dims is None else as_shape(dims, 0, "roll")
    if not places and len(moves) == 1:
        if input.ndim == 1:
            return _rolled(xp, input, moves[0], 0)
        return _rolled(xp, input.reshape(-1), moves[0], 0).reshape(input.shape)
    if not moves or len(moves) != len(places):
        raise RuntimeError(f"roll: {len(moves)} shifts for {len(places)} dims; give one each.")
    if not input.ndim:
        raise errors.bad_dim("roll", places[0], 0)
    for shift, dim in zip(moves, places, strict=True):
        input = _rolled(xp, input, shift, as_dim(dim, input.ndim, "roll"))
    return input


def _rolled(xp: Namespace, input: Array, shift: int, dim: int) -> Array:
    """The end comes before the start."""
    size = input.shape[dim]
    cut = -shift % size if size else 0
    if dim:
        before = (_WHOLE,) * dim
        end, start = input[(*before, slice(cut, None))], input[(*before, slice(0, cut))]
    else:
        end, start = input[cut:], input[:cut]
    join = concatenate if type(input) is numpy.ndarray else xp.concatenate
    joined = join((end, start), dim)
    return joined if joined.flags.c_contiguous else joined_in_order(joined, (input,))


def repeat(input: Any, repeats: Any) -> Any:
    """Tile the tensor: `repeats` times along each dimension, in new memory.

    >>> import pullback as torch
    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    sizes = as_shape(repeats, 0, "repeat")
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
    apart = g.reshape(tuple(folded))
    if isinstance(g, Tensor):
        return apart.sum(dims).reshape(tuple(input_shape))
    return sums(namespace(g), apart, dims, keepdim=False).reshape(tuple(input_shape))


@linear(
    batch=batch_shapes.tiled,
    input=lambda g, input_shape, sizes: _repeat_adjoint(g, input_shape, sizes),
    node="RepeatBackward0",
    has_out=False,
    aten="repeat.default",
)
def _repeat(xp: Namespace, input: Array, sizes: Shape) -> Array:
    return xp.tile(input, sizes)


spread("repeat", repeat)


def tile(input: Any, dims: Any) -> Any:
    """As `repeat`; missing leading counts are 1.

    >>> import pullback as torch
    >>> torch.tile(torch.tensor([1, 2]), (2,))
    tensor([1, 2, 1, 2])
    """
    if type(dims) is int:
        raise errors.not_a_sequence("tile", "dims", dims)
    counts = as_shape(dims, 0, "tile")
    return repeat(input, (1,) * (input.ndim - len(counts)) + counts)


spread("tile", tile)
