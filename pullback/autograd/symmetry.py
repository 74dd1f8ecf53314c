"""Whether a Jacobian of gradients, a Hessian, is sure to be symmetric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.core.mode import fast, get_mode
from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ
from pullback.core.view import edge_of

__all__ = ["is_symmetric"]


def is_symmetric(made: Sequence[Any], entered: Sequence[Any]) -> bool:
    """Whether only declared operators led from `entered` to an output and its gradients, `made`.

    Their second derivatives are symmetric. A user's backward need not be the derivative of its
    forward, and a hook changes what it is.
    """
    if get_mode() is not fast.plain:
        return False
    if any(one._leaf_hooks or one._array.dtype.kind != "f" for one in entered):
        return False
    nodes: set[Any] = set()
    stack: list[Any] = [edge_of(one) for one in made]
    while stack:
        edge = stack.pop()
        if edge is None or edge._seq == LEAF_SEQ:
            continue
        node = edge.node if edge._seq == OUTPUT_SEQ else edge
        if node in nodes:
            continue
        if node._cold is not None or not hasattr(node.__class__, "op"):
            return False
        nodes.add(node)
        stack += node._edges
    return True
