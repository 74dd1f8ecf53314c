"""`.data` inside function transforms: a cut at the level of the tensor, and at no other.

torch wraps a tensor once for each derivative it was made in, and `.data` takes the history of the
outermost wrapper away. Here nothing is wrapped, so the derivative is looked for, and what the
outer ones know of the tensor goes along: its edge past a node where the passes of the cut one end,
and its tangents.
"""

from __future__ import annotations

import sys

from pullback.core.forward import LEVELS, open_levels
from pullback.core.nesting import Derivative, running
from pullback.core.node import LEAF_SEQ
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.core.view import CreationMeta, attach, edge_of
from pullback.transforms.reverse import DetachBackward, finds_others, node_like

__all__ = ["data_inside"]

_NEVER = sys.maxsize  # deeper than any pass


def data_inside(tensor: Tensor, bare: Tensor) -> Tensor:
    """`tensor.data`; `bare` is an alias without history and tangents, what it is most of the time.

    Where outer derivatives see more, writes to it are refused: they would have to reach `tensor`.
    """
    derivative = _made_in(tensor, running.get())
    return bare if derivative is None else _cut(tensor, bare, derivative)


def _made_in(tensor: Tensor, derivatives: tuple[Derivative, ...]) -> Derivative | None:
    """The innermost derivative in whose function the tensor was made, or that it is an input of."""
    edge = edge_of(tensor)
    one: Derivative
    for one in reversed(derivatives):
        if any(given is tensor for given in one.inputs):
            return one
        if one.level is not None and one.level.get(tensor) is not None:
            return one
        if edge is None:
            if one.scope is None or not one.scope.is_captured(tensor, one.inputs):
                return one
        elif edge._seq == LEAF_SEQ:
            if tensor.__dict__.get("_depth", 0) == one.depth:
                return one
        elif one.scope is None or edge._seq < one.scope.start:  # numbers count down
            return one
    return None


def _cut(tensor: Tensor, bare: Tensor, derivative: Derivative) -> Tensor:
    levels = [one for one in open_levels() if one is not derivative.level] if LEVELS else []
    tangents = [(one, found) for one in levels if (found := one.get(tensor)) is not None]
    edge = edge_of(tensor)
    reverse = derivative.level is None
    if reverse and edge is not None and not finds_others([edge], derivative.depth):
        edge = None
    if edge is None and not tangents:
        return bare
    node = None
    if edge is not None:
        node = node_like(DetachBackward, tensor, edge)
        node.depth = derivative.depth if reverse else _NEVER
    made = bare._alias()
    attach(made, bare, node, creation=CreationMeta.OWN_LEVEL)
    made._node.change(forward=False)
    for level, tangent in tangents:
        level.put(made, _cut(tangent, tangent._alias(), derivative))
    return made


ports.fill(data_inside=data_inside)
