"""The transpose of a linear layer's weight, as a node of its own where the graph is looked at.

In torch a linear layer is `addmm` (or `mm`) of a transposed weight, and who walks the graph meets
the node of the transpose. Here it is one operator and one node. When `next_functions` is first read
there, the node takes torch's order of inputs and lets the gradient of the weight go through a node
of `t`: same values, one step more from then on.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pullback.core import passes
from pullback.core.tensor import new
from pullback.operators.shape.views import t
from pullback.operators.writing.nodes import node_class

__all__ = ["reveal"]


def reveal(node: Any) -> None:
    """Give a linear layer's node the shape that torch's graph has."""
    edges = node._edges
    if passes.running.get() is not None or len(edges) != 3 or edges[1] is None:
        return  # a pass that is under way knows the node as it is
    weight = edges[1]
    shape = weight._g_shape
    if len(shape) != 2 or len(node._g_shape) != 2:
        return
    transposed: Any = new(node_class(t.op))  # type: ignore[attr-defined]  # a declared operator
    transposed._edges = (weight,)
    transposed._cold = None
    transposed._g_shape, transposed._g_dtype = (shape[1], shape[0]), node._g_dtype
    transposed._code, transposed._lasti = node._code, node._lasti
    transposed._seq = node._seq + 0.5  # between the layer, which is newer, and its weight
    biased = edges[2] is not None
    kind: Any = type(node)
    node.__class__ = _revealed(kind, biased=biased)
    node._edges = (edges[2], edges[0], transposed) if biased else (edges[0], transposed)


@cache
def _revealed(kind: Any, *, biased: bool) -> Any:
    """A class of nodes that takes torch's order of edges and gives the weight's gradient to `t`."""

    def given(edges: tuple[Any, ...]) -> tuple[Any, ...]:
        return (edges[1], edges[2], edges[0]) if biased else (*edges, None)

    def taken(results: Any) -> tuple[Any, ...]:
        input, weight, bias = results
        weight = None if weight is None else weight.T
        return (bias, input, weight) if biased else (input, weight)

    members = {
        "__slots__": (),
        "__module__": kind.__module__,
        "_shows": None,
        "_run": lambda self, g, edges: taken(kind._run(self, g, given(edges))),
        "_run_tensors": lambda self, g, edges: taken(kind._run_tensors(self, g, given(edges))),
    }
    return type("AddmmBackward0" if biased else "MmBackward0", (kind,), members)
