"""Whether a gradient's layout can stand for its target's.

A dense or COO gradient fits any target; compressed rows or columns only their own layout.
"""

from __future__ import annotations

from typing import Any

from pullback.core.explain import layout_errors
from pullback.core.layout import sparse_coo, strided
from pullback.core.node import AccumulateGrad, Output

__all__ = ["check_layouts", "check_root"]


def layout_at(edge: Any) -> Any:
    """The layout of the tensor whose gradient arrives at an edge; None where nobody knows."""
    node = edge.node if isinstance(edge, Output) else edge
    if isinstance(node, AccumulateGrad):
        return node.variable._layout or strided
    if getattr(node, "_by_user", False):
        return None
    pattern = getattr(node, "s_pattern", None)
    makes_layout = getattr(getattr(type(node), "op", None), "makes_layout", False)
    return pattern.layout if makes_layout and pattern is not None else strided


def check_layouts(name: str, gradients: Any, edges: Any) -> None:
    """Refuse what a user's backward returned in a layout that does not fit."""
    for index, (g, edge) in enumerate(zip(gradients, edges, strict=False)):
        kind = getattr(g, "_layout", None)
        if kind is None or kind is sparse_coo or edge is None:
            continue
        expected = layout_at(edge)
        if expected is not None and expected is not kind:
            raise layout_errors.gradient_layout(name, index, kind, expected)


def check_root(index: int, g: Any, layout: Any) -> None:
    """Refuse a root gradient in a layout that does not fit."""
    if g._layout is not sparse_coo and g._layout is not layout:
        raise layout_errors.root_layout(index, g._layout, layout)
