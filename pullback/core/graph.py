"""GradientEdge: a tensor's place in the graph, without the tensor."""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.core.node import Edge, Node


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor goes; accepted wherever backward() and grad() take tensors."""

    node: Node
    output_nr: int
    ownership_token: Any = None


def internal_edge(edge: GradientEdge) -> Edge:
    """The same as the engine keeps it."""
    if not isinstance(edge.node, Node):
        got = type(edge.node).__name__
        raise RuntimeError(f"A GradientEdge must hold a Node, got {got}.")
    return edge.node._output(edge.output_nr)
