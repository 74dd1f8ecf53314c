"""Gradients that have a history by an input on which nothing of them depends.

torch hands the rules of some nodes their input, for its size alone: a pass that is recorded then
makes gradients that require grad, and differentiating those once more gives zeros, where ours do
not ask for the input and would end. So such a gradient leads to where the input came from.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.mode import get_mode
from pullback.core.node import BuiltIn, OperatorNode
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor, new, wrap
from pullback.core.version import own_cell

_FOLLOWED = re.compile(
    r"(Convolution|(Max|AdaptiveMax|AdaptiveAvg|FractionalMax|Avg)Pool\dD(WithIndices)?"
    r"|GridSampler\dD|(Reflection|Replication)Pad\dD|NllLoss(2D|Nd)?)Backward0"
)

Run = Callable[[Any, Any, tuple[Any, ...]], tuple[Any, ...]]


class FollowedBackward0(OperatorNode, metaclass=BuiltIn):
    """The node of a gradient that leads to the input of another node, and brings zeros there."""

    __slots__ = ()

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        (edge,) = edges
        return (None if edge is None else numpy.zeros(edge._g_shape, edge._g_dtype),)

    def _run_tensors(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        (zeros,) = self._run(g, edges)
        return (None if zeros is None else wrap(zeros),)


def is_followed(node_name: str) -> bool:
    """Whether torch's rules of this node take the input."""
    return _FOLLOWED.fullmatch(node_name) is not None


def followed(run: Run) -> Run:
    """What runs a node on tensors, with a gradient of the input that leads to the input."""

    def _run_tensors(self: Any, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        results = run(self, g, edges)
        first, edge = results[0], edges[0]
        if edge is None or first.__class__ is not Tensor or first._node is not None:
            return results
        mode = get_mode()
        # A captured program has no step for it: there such a gradient ends.
        if not mode.grad or mode.tracing is not None or type(first._array) is not numpy.ndarray:
            return results
        return (_leading_to(first, edge), *results[1:])

    return _run_tensors


def _leading_to(g: Tensor, edge: Any) -> Tensor:
    """A tensor on the same memory whose history is that edge."""
    node = new(FollowedBackward0)
    node._edges = (edge,)
    node._cold = None
    node._g_shape, node._g_dtype = g._array.shape, g._array.dtype
    node._code, node._lasti = None, 0
    node._seq = numbering.next()
    led = new(Tensor)
    led._array = g._array
    led._cell = own_cell(g)
    led._node = node
    return led
