"""How gradients are made to fit where they go: summed to a shape, cast to a dtype.

Arrays and tensors differ in how that is done; what is to be done, and what cannot be, is decided
once for both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import LIBRARIES, as_array
from pullback.core.dtype import from_numpy_dtype
from pullback.core.mode import exactly_traced
from pullback.core.node import OUTPUT_SEQ, AccumulateGrad, Node
from pullback.core.promotion import is_half
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.reductions import MANY
from pullback.operators.arrays.sums import PIECE, few_sums, few_total, total

__all__ = ["as_tensor", "broadcast_dims", "fitted", "fitted_all", "fitted_tensor", "summed"]

Fit = Callable[[Any, Any, Node, int], Any]


def as_tensor(g: Any) -> Tensor:
    """A gradient that somebody outside of the pass may see."""
    return g if isinstance(g, Tensor) else wrap(as_array(g))


def fitted(g: Any, target: Any, node: Node, index: int) -> Any:
    """An array summed to the target's shape and cast to its dtype; refused if it cannot be."""
    shape = target._g_shape
    if g.shape != shape:
        if type(g) is not numpy.ndarray:
            g = summed(g, _dims_away(g.shape, shape, node, index), shape)
        elif shape or g.dtype.char not in "fd" or g.size > PIECE:
            known = _known_dims(g.shape, shape)
            g = summed(g, known or _dims_away(g.shape, shape, node, index), shape)
        else:  # of a number that went everywhere
            g = few_total(g)
    if g.dtype is target._g_dtype:
        return g
    dtype = _other_dtype(g.dtype, target, node, index)
    if dtype is None:
        return g
    return (g.real if _loses_imaginary_part(g.dtype, dtype) else g).astype(dtype)


def summed(g: Any, dims: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    """An array summed over `dims`, of which `shape` remains."""
    if type(g) is numpy.ndarray and g.dtype.char in "fd" and g.size < MANY and g.ndim:
        kept = len(dims) != g.ndim - len(shape)
        if not kept and len(dims) > 1 and g.size and g.flags.c_contiguous:
            g, dims = g.reshape(-1, *shape), (0,)  # one sum of rows, as of a bias: 2 us and not 17
        made = few_sums(numpy, g, dims, kept)
        return made if made.shape == shape else made.reshape(shape)
    if len(dims) == len(g.shape) - len(shape) and type(g) in LIBRARIES:
        return LIBRARIES[type(g)].summed(g, dims)  # no view: whoever gets it may keep it
    if dims and type(g) is numpy.ndarray:
        return total(numpy, g, dims, keepdim=False).reshape(shape)
    if dims and is_half(g.dtype):  # 256 is the last sum of ones in bfloat16
        return g.sum(dims, numpy.float32, keepdims=True).astype(g.dtype).reshape(shape)
    return g.sum(dims, keepdims=True).reshape(shape) if dims else g.reshape(shape)


def fitted_tensor(g: Any, target: Any, node: Node, index: int) -> Any:
    """The same of a tensor, by operators."""
    shape = target._g_shape
    if g._array.shape != shape:
        exact = exactly_traced()
        if not shape and exact is None:
            g = g.sum()
        else:
            dims = _dims_away(g._array.shape, shape, node, index)
            extra = len(g._array.shape) - len(shape)
            if exact is not None:
                g = exact.kernel("summed", summed, g, dims, shape)
            elif not extra:
                g = g.sum(dims, keepdim=True)
            elif len(dims) == extra:
                g = g.sum(dims)
            else:
                g = g.sum(dims, keepdim=True).reshape(shape)
    made = g._array.dtype
    if made is target._g_dtype:
        return g
    dtype = _other_dtype(made, target, node, index)
    if dtype is None:
        return g
    return (g.real if _loses_imaginary_part(made, dtype) else g).to(from_numpy_dtype(dtype))


def fitted_all(results: Sequence[Any], edges: Sequence[Any], node: Node, fit: Fit) -> Any:
    """What a node returned, one by one fitted to where it goes; None where that is nowhere."""
    return tuple(
        [
            None if r is None or edge is None or edge._seq > OUTPUT_SEQ else fit(r, edge, node, i)
            for i, (r, edge) in enumerate(zip(results, edges, strict=True))
        ]
    )


def _dims_away(shape: Any, target: tuple[int, ...], node: Node, index: int) -> tuple[int, ...]:
    """What broadcasting added: leading dimensions, and those that were stretched from 1."""
    dims = broadcast_dims(tuple(shape), target)
    if dims is None:
        raise errors.gradient_shape(type(node).name(node), index, tuple(shape), tuple(target))
    return dims


def broadcast_dims(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...] | None:
    """The dimensions of `shape` to sum so that `target` remains; None if it cannot be."""
    extra = len(shape) - len(target)
    if extra < 0:
        return None
    dims = list(range(extra))
    for dim, size in enumerate(target, start=extra):
        if shape[dim] != size:
            if size != 1:
                return None
            dims.append(dim)
    return tuple(dims)


# Of arrays, whose sizes are numbers: those that are traced want to be asked each time.
_known_dims = lru_cache(maxsize=1024)(broadcast_dims)


def _other_dtype(made: Any, target: Any, node: Node, index: int) -> numpy.dtype[Any] | None:
    """The dtype that a gradient must be cast to; None if it stays as it is."""
    wanted: numpy.dtype[Any] = target._g_dtype
    if made == wanted:
        return None
    if target.__class__ is AccumulateGrad:
        kept: Any = target.variable._grad_dtype
        if kept is None:  # the leaf takes gradients as they come
            return None
        if kept != "same":
            wanted = kept.numpy
            if made == wanted:
                return None
    # An operator's rule need not know that an input was real; a user's formula must.
    if _loses_imaginary_part(made, wanted) and not hasattr(type(node), "op"):
        raise errors.gradient_complex(type(node).name(node), index, from_numpy_dtype(wanted))
    return wanted


def _loses_imaginary_part(made: Any, wanted: numpy.dtype[Any]) -> bool:
    return made.kind in "cW" and wanted.kind not in "cW"
