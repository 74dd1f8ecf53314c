"""What the recorded pass (`create_graph`) does differently: sums, casts and stores as operators."""

from __future__ import annotations

from typing import Any

from pullback.core import errors
from pullback.core.dtype import from_numpy_dtype
from pullback.core.node import AccumulateGrad, Node
from pullback.engine.accumulate import broadcast_dims


def fitted(g: Any, target: Any, node: Node, index: int) -> Any:
    """`g` summed to the target's shape and cast to its dtype, in operators."""
    shape = g._array.shape
    if shape != target._g_shape:
        dims = broadcast_dims(shape, target._g_shape)
        if dims is None:
            raise errors.gradient_shape(type(node).name(node), index, shape, target._g_shape)
        g = (g.sum(dims, keepdim=True) if dims else g).reshape(target._g_shape)
    if g._array.dtype != target._g_dtype:
        wanted = from_numpy_dtype(target._g_dtype)
        if g.dtype.is_complex and not wanted.is_complex:
            if not hasattr(type(node), "op"):
                raise errors.gradient_complex(type(node).name(node), index, wanted)
            g = g.real
        g = g.to(wanted)
    return g


def accumulate(leaf_node: AccumulateGrad, g: Any) -> None:
    """Add to `.grad` out of place, keeping the history."""
    leaf = leaf_node.variable
    if not leaf.requires_grad:
        return
    if not leaf.is_leaf:
        raise errors.leaf_moved_inside()
    with leaf_node.lock:
        stored = leaf._stored_grad
    total = g.clone() if stored is None else stored + g
    leaf._stored_grad = total
