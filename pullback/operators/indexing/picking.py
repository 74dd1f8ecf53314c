"""One element per line along a dimension, by its index, and the way back for gradients.

Here and not among the indexing operators because reductions and scans need them, and come first.
The indices have as many dimensions as the input, so a reduced dimension stays as one of size 1.
They come from an operator that has checked or made them, and are not looked at again.
"""

from __future__ import annotations

from typing import Any

from pullback.operators.arrays.scatter import read_along, reduce_along, write_along
from pullback.operators.batching import together
from pullback.operators.declare import Array, Dim, Namespace, linear, primitive
from pullback.operators.shape.reshaping import reshape

__all__ = ["add_back", "clear", "kept", "pick", "put_back"]


def kept(reduced: Any, dim: int, shape: Any, *, keepdim: bool) -> Any:
    """A result reduced over `dim` of `shape`, with that dimension as one of size 1."""
    if keepdim or not shape:
        return reduced
    return reshape(reduced, (*reduced.shape[:dim], 1, *reduced.shape[dim:]))


def _size(shape: Any, dim: int) -> int:
    return shape[dim] if shape else 1


@primitive(
    batch=together,
    input=lambda g, indices, input_shape, dim: add_back(g, indices, _size(input_shape, dim), dim),
    jvp=lambda d_input, indices, dim: pick(d_input, indices, dim),
    method=False,
    has_out=False,
    aten="",
)
def pick(xp: Namespace, input: Array, indices: Array, dim: Dim) -> Array:
    """`input` at `indices` along `dim`, at their own places in all others."""
    return read_along(xp, input, dim, indices) if input.ndim else input.copy()


@linear(
    batch=together,
    input=lambda g, indices, dim: clear(g, indices, dim),
    method=False,
    has_out=False,
    aten="",
)
def clear(xp: Namespace, input: Array, indices: Array, dim: Dim) -> Array:
    """`input` with zeros at `indices` along `dim`."""
    if not input.ndim:
        return xp.zeros((), input.dtype)
    out = xp.array(input, order="C")
    write_along(xp, out, dim, indices, 0)
    return out


@primitive(
    batch=together,
    g=lambda g, indices, dim: pick(g, indices, dim),
    jvp=lambda d_g, indices, size, dim: put_back(d_g, indices, size, dim),
    method=False,
    has_out=False,
    aten="",
)
def put_back(xp: Namespace, g: Array, indices: Array, size: int, dim: Dim) -> Array:
    """`g` at `indices` along `dim` of zeros of that size; no index comes twice in a line."""
    if not g.ndim:
        return g.copy()
    if 0 in g.strides:  # what is expanded is written by index at half of the speed
        g = g.copy()
    shape = (*g.shape[:dim], size, *g.shape[dim + 1 :])
    whole = xp.empty(shape, g.dtype) if size == g.shape[dim] else xp.zeros(shape, g.dtype)
    write_along(xp, whole, dim, indices, g)
    return whole


@primitive(
    batch=together,
    g=lambda g, indices, dim: pick(g, indices, dim),
    jvp=lambda d_g, indices, size, dim: add_back(d_g, indices, size, dim),
    method=False,
    has_out=False,
    aten="",
)
def add_back(xp: Namespace, g: Array, indices: Array, size: int, dim: Dim) -> Array:
    """As `put_back`, adding up what meets at one index."""
    if not g.ndim:
        return g.copy()
    whole = xp.zeros((*g.shape[:dim], size, *g.shape[dim + 1 :]), g.dtype)
    reduce_along(xp, xp.add, whole, dim, indices, g)
    return whole
