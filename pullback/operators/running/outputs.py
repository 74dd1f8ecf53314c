"""Outputs of a declared operator's node: kept ones as tensors again, gradients of several.

What written nodes call; the interpreter makes the same nodes.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core import saved
from pullback.core.arrays import Array
from pullback.core.forward import open_levels
from pullback.core.mode import get_mode
from pullback.core.node import Output
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, wrap
from pullback.operators.plan import several_outputs
from pullback.operators.running.declared_node import DeclaredNode

__all__ = ["SeveralOutputs", "fill_missing", "output_tensor"]


def output_tensor(node: Any, name: str, number: int) -> Any:
    """A saved output as a tensor again, in its place in the graph."""
    value = getattr(node, "s_" + name)
    fixed = name in node.op.fixed_outputs
    edge = None if fixed else node._output(number) if several_outputs(node.op) else node
    if type(value) is saved.Packed:
        tensor = value.unpack(edge)
    else:
        array = saved.output_array(node, name)
        # A Tensor: of a class that answers below autograd.
        tensor = array.detach() if isinstance(array, Tensor) else wrap(array)
        if get_mode().dispatch and tensor.__class__ is Tensor:
            tensor = ports.detached_below(tensor)  # which the user's mode is shown
        tensor._cell = getattr(node, "s_" + name + "_c")
        tensor._node = edge
    for level in open_levels():
        level.put(tensor, level.kept(node, name))
    return tensor


def fill_missing(node: Any, gradients: Any, tensors: bool) -> Any:
    """Gradients of several outputs, zeros where none arrived."""
    fixed = [name in node.op.fixed_outputs for name in node.op.outputs]
    return [
        node._zeros(i, tensors=tensors) if g is None and not (len(fixed) > i and fixed[i]) else g
        for i, g in enumerate(gradients)
    ]


class SeveralOutputs(DeclaredNode):
    """A node that receives the gradients of several tensors."""

    __slots__ = ("_g_sizes",)

    _g_sizes: tuple[tuple[tuple[int, ...], Any], ...]  # shape and dtype of each output
    _make_zeros: Any = staticmethod(numpy.zeros)

    def _output(self, number: int) -> Output:
        """Where the gradient of one output goes."""
        return Output(self, number, *self._g_sizes[number])

    def _zeros(self, number: int, *, tensors: bool) -> Array:
        """What a missing gradient counts as."""
        zeros = self._make_zeros(*self._g_sizes[number])
        return wrap(zeros) if tensors else zeros
