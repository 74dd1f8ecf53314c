"""What arrives at a leaf, and how a gradient is made to fit where it goes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy

from pullback.core import errors, origin
from pullback.core.arrays import LIBRARIES, Array, OtherArray
from pullback.core.dtype import from_numpy_dtype
from pullback.core.mode import get_mode
from pullback.core.node import AccumulateGrad, Leaf, Node
from pullback.core.overriding import DISPATCH
from pullback.core.ports import ports
from pullback.core.process.warning_once import should_warn
from pullback.core.tensor import Tensor, device_of, wrap
from pullback.core.version import INFERENCE_CELL, own_cell


def fitted(g: Any, target: Any, node: Node, index: int) -> Any:
    """`g` summed to the target's shape and cast to its dtype; refused if it cannot be."""
    if g.shape != target._g_shape:
        g = sum_to(g, target._g_shape, node, index)
    if g.dtype != target._g_dtype:
        wanted = dtype_there(target)
        if wanted is not None:
            g = cast(g, wanted, node, index)
    return g


def dtype_there(target: Any) -> numpy.dtype[Any] | None:
    """Which dtype gradients have at an edge; None where a leaf takes them as they come."""
    kept: Any = target.variable._grad_dtype if target.__class__ is AccumulateGrad else "same"
    if kept == "same":
        made: numpy.dtype[Any] = target._g_dtype
        return made
    wanted: numpy.dtype[Any] | None = None if kept is None else kept.numpy
    return wanted


def sum_to(g: Array, shape: tuple[int, ...], node: Node, index: int) -> Array:
    """Undo broadcasting: sum leading dimensions away and stretched ones down to 1."""
    dims = broadcast_dims(tuple(g.shape), shape)
    if dims is None:
        raise errors.gradient_shape(type(node).name(node), index, tuple(g.shape), tuple(shape))
    if len(dims) == len(g.shape) - len(shape) and type(g) in LIBRARIES:
        return LIBRARIES[type(g)].summed(g, dims)  # no view: whoever gets it may keep it
    return g.sum(dims, keepdims=True).reshape(shape) if dims else g.reshape(shape)


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


def cast(g: Array, dtype: numpy.dtype[Any], node: Node, index: int) -> Array:
    """To the dtype of the tensor whose gradient this is."""
    if g.dtype.kind in "cW" and dtype.kind not in "cW":
        # An operator's rule need not know that an input was real; a user's formula must.
        if not hasattr(type(node), "op"):
            raise errors.gradient_complex(type(node).name(node), index, from_numpy_dtype(dtype))
        g = g.real
    return g.astype(dtype)


def accumulate(leaf_node: AccumulateGrad, g: Array, *, owned: bool) -> None:
    """Add an array to a leaf's `.grad`; adopt it only if `owned`: nobody else can see it."""
    leaf = leaf_node.variable
    if not _still_a_leaf(leaf):
        return
    if type(g) is not numpy.ndarray:
        g = _on_its_device(leaf, g)
    with leaf_node.lock:
        stored = leaf._stored_grad
        if stored is not None:
            if stored._kind is not None:
                leaf._stored_grad = _added_to_sparse(stored, g)
                return
            _add_into(stored, g, leaf)
        else:
            leaf._stored_grad = wrap(_laid_out_as(leaf, g, owned=owned))


def _call(node: AccumulateGrad, *gradients: Any, **unsupported: Any) -> tuple[()]:
    """The node as a function: adds to the leaf's `.grad`, without hooks."""
    if unsupported:
        raise TypeError("AccumulateGrad takes no keyword arguments.")
    if len(gradients) != 1:
        raise TypeError(f"AccumulateGrad takes 1 gradient, got {len(gradients)}.")
    g = gradients[0]
    if g is not None and not isinstance(g, Tensor):
        raise TypeError(f"AccumulateGrad takes a Tensor or None, got {type(g).__name__}.")
    if g is not None:
        accumulate(node, fitted(g._array, node, node, 0), owned=False)
    return ()


ports.fill(accumulate_by_call=_call)


def _on_its_device(leaf: Tensor, g: Any) -> Any:
    """A gradient moved to where its leaf is, if it is a single number."""
    device = device_of(g)
    if type(g) is type(leaf._array) or device == leaf.device:
        return g
    if g.shape:
        raise errors.gradient_device("a leaf", device, leaf.device)
    return wrap(g).to(leaf.device)._array


def _still_a_leaf(leaf: Tensor) -> bool:
    if leaf._node.__class__ is Leaf:
        return True
    if not leaf.requires_grad:
        return False
    if not leaf.is_leaf:
        raise errors.leaf_moved_inside()
    return True


def _add_into(stored: Tensor, g: Array, leaf: Tensor) -> None:
    array = stored._array
    if type(array) is not numpy.ndarray and stored._takes & DISPATCH:
        stored.add_(wrap(g))  # as its class does it
        return
    if type(array) is numpy.ndarray:
        strides = array.strides
        if array.shape != g.shape or 0 in strides or stored._cell is INFERENCE_CELL:
            _check_stored(stored, g)
        if strides != leaf._array.strides and get_mode().enforce_grad_layout:
            _warn_of_layout(array, leaf)
    if array.dtype == g.dtype:
        numpy.add(array, g, out=array)
    else:
        array += g.astype(array.dtype)
    if stored._cell is not INFERENCE_CELL:
        own_cell(stored)[0] += 1


def _added_to_sparse(stored: Tensor, g: Any) -> Tensor:
    """A sparse gradient added in place to a sparse one; a dense one makes a new, dense tensor."""
    array = stored._array
    if array.shape != g.shape:
        raise errors.stored_grad_shape(array.shape, tuple(g.shape))
    total = array + g
    if not isinstance(total, OtherArray) or type(total) is not type(array):
        return wrap(total)
    if stored.is_inference() and not get_mode().inference:
        raise errors.stored_grad_inference()
    array.become(total.astype(array.dtype) if total.dtype != array.dtype else total)
    if stored._cell is not INFERENCE_CELL:
        own_cell(stored)[0] += 1
    return stored


def _check_stored(stored: Tensor, g: Array) -> None:
    """Refuse to add to what cannot be written, before anything is."""
    array = stored._array
    if array.shape != g.shape:
        raise errors.stored_grad_shape(array.shape, tuple(g.shape))
    if stored.is_inference() and not get_mode().inference:
        raise errors.stored_grad_inference()
    repeats = [n > 1 and s == 0 for n, s in zip(array.shape, array.strides, strict=True)]
    if array.size and any(repeats):  # of nothing, strides say nothing
        raise errors.overlapping_write("accumulating into .grad")


def _warn_of_layout(array: Array, leaf: Tensor) -> None:
    """A stored gradient in another order than its leaf slows everything that takes both."""
    like = leaf._array
    ours = [stride // array.itemsize for stride in array.strides]
    theirs = [stride // like.itemsize for stride in like.strides]
    sides = zip(ours, theirs, like.shape, strict=False)
    if not is_dense(like) or all(one == other for one, other, n in sides if n > 1):
        return
    if not should_warn("layout of a stored gradient"):
        return
    warnings.warn(
        f"The stored .grad has sizes {list(array.shape)} and strides "
        f"{ours}, its leaf sizes {list(like.shape)} and strides {theirs}. "
        "That is no error, but works with both are slower. "
        "Set .grad to None before backward() to have it made in the leaf's order, or silence this "
        "with torch.autograd.enforce_grad_layout_policy(False).",
        UserWarning,
        stacklevel=origin.stacklevel(),
    )


def _laid_out_as(leaf: Tensor, g: Any, *, owned: bool) -> Array:
    """`g` as an array of its own, in the leaf's memory order if the leaf is dense."""
    if leaf._grad_dtype != "same" and leaf._grad_dtype is not None:
        wanted = leaf._grad_dtype.numpy
        if g.dtype != wanted:
            g, owned = g.astype(wanted), True
    if type(g) is not numpy.ndarray:
        if isinstance(g, OtherArray):
            return g if owned else g.copy()
        if type(g) in LIBRARIES:
            return _laid_out_there(leaf, g, owned=owned)
        return g.copy() if hasattr(g, "_device") else numpy.array(g)  # without data: as it is
    like = leaf._array
    if type(like) is not numpy.ndarray and isinstance(like, OtherArray):
        return g if owned and g.flags.writeable else numpy.array(g, order="C")
    if owned and g.strides == like.strides and g.flags.writeable:
        return g
    if not get_mode().enforce_grad_layout:
        return g if owned and g.flags.writeable else numpy.array(g, order="K")
    if like.flags.c_contiguous or not is_dense(like):
        return (
            g if owned and g.flags.c_contiguous and g.flags.writeable else numpy.array(g, order="C")
        )
    fresh = numpy.empty_like(like, dtype=g.dtype)
    fresh[...] = g
    return fresh


def _laid_out_there(leaf: Tensor, g: Any, *, owned: bool) -> Array:
    """The same of an array on a device, where all memory can be written."""
    like = leaf._array
    if owned and (g.strides == like.strides or not get_mode().enforce_grad_layout):
        return g
    if like.flags.c_contiguous or not is_dense(like):
        return g if owned and g.flags.c_contiguous else g.copy(order="C")
    fresh = numpy.empty_like(like, dtype=g.dtype)  # which asks the array's own library
    fresh[...] = g
    return fresh


def is_dense(array: Array) -> bool:
    """Whether the elements fill one block of memory, each place once, in some order of dims."""
    step = array.itemsize
    for stride, size in sorted(
        (s, n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1
    ):
        if stride != step:
            return False
        step *= size
    return True
