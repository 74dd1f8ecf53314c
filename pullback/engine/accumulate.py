"""What arrives at a leaf: how a gradient is added to `.grad`."""

from __future__ import annotations

import warnings
from typing import Any

import numpy

from pullback.core import errors, origin
from pullback.core.arrays import LIBRARIES, Array, OtherArray, on_device_of
from pullback.core.dtype import OF_NUMBERS
from pullback.core.mode import get_mode
from pullback.core.node import LOCK_COUNT, LOCKS, AccumulateGrad, Leaf
from pullback.core.overriding import DISPATCH
from pullback.core.ports import ports
from pullback.core.process.warning_once import should_warn
from pullback.core.tensor import Tensor, blanks, device_of, wrap
from pullback.core.version import INFERENCE_CELL, UNWRITTEN, own_cell
from pullback.engine.fitting import fitted
from pullback.operators.arrays.row_major import row_major


def accumulate(leaf_node: AccumulateGrad, g: Array, *, owned: bool) -> None:
    """Add an array to a leaf's `.grad`; adopt it only if `owned`: nobody else can see it."""
    leaf = leaf_node.variable
    if leaf._node.__class__ is not Leaf and not _still_a_leaf(leaf):
        return
    if type(g) is numpy.ndarray:
        like = leaf._array
        if owned and g.strides == like.strides and type(like) is numpy.ndarray:
            # The first gradient of most: it is kept as it came.
            with LOCKS[(id(leaf) >> 5) % LOCK_COUNT]:
                if leaf._stored_grad is None and leaf._grad_dtype == "same" and g.flags.writeable:
                    made = next(blanks)
                    made._array = g
                    made._node = None
                    made._cell = UNWRITTEN
                    leaf._stored_grad = made
                    return
        _add(leaf, g, owned)
        return
    g = _on_its_device(leaf, g)
    with on_device_of(g):
        _add(leaf, g, owned)


def _add(leaf: Tensor, g: Array, owned: bool) -> None:
    with LOCKS[(id(leaf) >> 5) % LOCK_COUNT]:  # `leaf_node.lock`, a property, takes 0.12 us
        stored = leaf._stored_grad
        if stored is not None:
            if stored._layout is not None:
                leaf._stored_grad = _added_to_sparse(stored, g)
                return
            _add_into(stored, g, leaf)
        else:
            like = leaf._array
            usual = type(g) is numpy.ndarray is type(like) and leaf._grad_dtype == "same"
            if not (owned and usual and g.strides == like.strides and g.flags.writeable):
                g = _laid_out_as(leaf, g, owned=owned)
            leaf._stored_grad = wrap(g)


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
    if not leaf.requires_grad:
        return False
    if not leaf.is_leaf:
        raise errors.leaf_moved_inside()
    return True


def _add_into(stored: Tensor, g: Array, leaf: Tensor) -> None:
    array = stored._array
    if type(array) is not numpy.ndarray and stored._overrides & DISPATCH:
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
        # Without data, or of numbers of another type: as it is.
        return g.copy() if hasattr(g, "_device") or g.dtype.char == OF_NUMBERS else numpy.array(g)
    like = leaf._array
    if type(like) is not numpy.ndarray and isinstance(like, OtherArray):
        return g if owned and g.flags.writeable else numpy.array(g, order="C")
    if owned and g.strides == like.strides and g.flags.writeable:
        return g
    if not get_mode().enforce_grad_layout:
        return g if owned and g.flags.writeable else numpy.array(g, order="K")
    if like.flags.c_contiguous or not is_dense(like):
        return g if owned and g.flags.c_contiguous and g.flags.writeable else row_major(g)
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
