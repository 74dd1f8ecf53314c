"""GradientEdge: a tensor's place in the graph, without the tensor."""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.core.node import Edge, Node


class GradientEdge(NamedTuple):
    """Where the gradient of a tensor goes; accepted wherever backward() and grad() take tensors.

    >>> import pullback as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> edge = torch.autograd.graph.get_gradient_edge(x * x)
    >>> edge.node.name(), edge.output_nr
    ('MulBackward0', 0)
    >>> torch.autograd.grad(edge, x, torch.tensor(1.0))
    (tensor(6.),)
    """

    node: Node
    output_nr: int
    ownership_token: Any = None


def internal_edge(edge: GradientEdge) -> Edge:
    """The same as the engine keeps it."""
    if not isinstance(edge.node, Node):
        got = type(edge.node).__name__
        raise RuntimeError(f"A GradientEdge must hold a Node, got {got}.")
    return edge.node._output(edge.output_nr)
