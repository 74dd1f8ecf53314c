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

# Nodes, and the inputs that torch hands to their rules: by the order of their edges.
_FOLLOWED = {
    re.compile(pattern): places
    for pattern, places in (
        (r"ConvolutionBackward0", (0, 1)),
        (r"(Max|AdaptiveMax|AdaptiveAvg|FractionalMax|Avg)Pool\dD(WithIndices)?Backward0", (0,)),
        (r"GridSampler\dDBackward0|(Reflection|Replication)Pad\dDBackward0", (0,)),
        (r"NllLoss(2D|Nd)?Backward0|(Multi|Multilabel)MarginLossBackward0", (0,)),
        (r"NativeLayerNormBackward0", (0, 1, 2)),
        (r"NativeBatchNormBackward0|NativeGroupNormBackward0", (0, 1)),
        (r"SegmentReduceBackward0", (0,)),
    )
}

Run = Callable[[Any, Any, tuple[Any, ...]], tuple[Any, ...]]


class FollowedBackward0(OperatorNode, metaclass=BuiltIn):
    """The node of a gradient that leads to the input of another node, and brings zeros there."""

    __slots__ = ()

    def _run(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            None if edge is None else numpy.zeros(edge._g_shape, edge._g_dtype) for edge in edges
        )

    def _run_tensors(self, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        found = self._run(g, edges)
        return tuple(None if zeros is None else wrap(zeros) for zeros in found)


def inputs_followed(node_name: str) -> tuple[int, ...]:
    """Which inputs torch's rules of this node take, though nothing may depend on them."""
    for pattern, places in _FOLLOWED.items():
        if pattern.fullmatch(node_name):
            return places
    return ()


def followed(run: Run, places: tuple[int, ...]) -> Run:
    """What runs a node on tensors, with gradients that lead to the inputs at these places."""

    def _run_tensors(self: Any, g: Any, edges: tuple[Any, ...]) -> tuple[Any, ...]:
        results = run(self, g, edges)
        mode = get_mode()
        # A captured program has no step for it: there such a gradient ends.
        if not mode.grad or mode.tracing is not None:
            return results
        every = self._edges  # `edges` are those that somebody wants a gradient for
        ends = tuple(every[at] for at in places if at < len(every) and every[at] is not None)
        if not ends:
            return results
        return tuple(_leading_to(one, ends) if _has_no_history(one) else one for one in results)

    return _run_tensors


def _has_no_history(g: Any) -> bool:
    return g.__class__ is Tensor and not g.requires_grad and type(g._array) is numpy.ndarray


def _leading_to(g: Tensor, edges: tuple[Any, ...]) -> Tensor:
    """A tensor on the same memory whose history is those edges."""
    node = new(FollowedBackward0)
    node._edges = edges
    node._cold = None
    node._g_shape, node._g_dtype = g._array.shape, g._array.dtype
    node._code, node._lasti = None, 0
    node._seq = numbering.next()
    led = new(Tensor)
    led._array = g._array
    led._cell = own_cell(g)
    led._node = node
    return led
