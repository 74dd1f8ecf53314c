"""A tensor from outside, while a capture runs: on an array without data, with no history.

What the function did to it is read off at the end.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.traced import TracedArray
from pullback.core.arrays import LIBRARIES
from pullback.core.device import CPU
from pullback.core.memory import meta
from pullback.core.node import Leaf, new_leaf_mark, node_and_number
from pullback.core.tensor import Tensor, new
from pullback.core.version import INFERENCE_CELL, UNWRITTEN
from pullback.core.view import edge_of

__all__ = ["LEAF", "Known", "facts", "met_by_passes"]

LEAF = "a leaf"


def facts(tensor: Tensor) -> tuple[Any, ...]:
    """What a program takes for granted of a tensor, besides its values."""
    array = tensor._array
    library = LIBRARIES.get(type(array))
    where: Any = type(array) if library is None else (type(array), library.device(array))
    return (type(tensor), array.dtype, array.shape, array.strides, tensor.requires_grad, where)


def _is_usual(kind: type) -> bool:
    """Whether tensors of a class are plain ones, or parameters, whose file is loaded then."""
    parameters = sys.modules.get("pullback.nn.parameter")
    return kind is Tensor or (parameters is not None and kind is parameters.Parameter)


def met_by_passes(tensor: Tensor) -> str:
    """What a backward pass that comes to a tensor meets there: a leaf or a history, and hooks."""
    if tensor.is_leaf:
        node = tensor._node() if tensor._node.__class__ is Leaf else None  # its accumulator
        own = tensor._leaf_hooks or tensor._post_accumulate_grad_hooks
        hooked = bool(own) or (node is not None and node._cold is not None and node._cold.has_hooks)
        return f"{LEAF} with hooks" if hooked else LEAF
    what = "a tensor with a history"
    node, number = node_and_number(edge_of(tensor))
    cold = None if node is None else node._cold
    hooked = cold is not None and bool(
        (cold.tensor_hooks or {}).get(number) or number in (cold.retained or ())
    )
    return f"{what} with hooks" if hooked else what


def leads(roots: list[Tensor], ends: list[Tensor]) -> bool:
    """Whether the history of any of these tensors reaches one of those leaves."""
    wanted = {id(edge_of(one)) for one in ends}
    waiting: list[Any] = [node_and_number(edge_of(one))[0] for one in roots] if wanted else []
    seen: set[int] = set()
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        if id(node) in wanted:
            return True
        seen.add(id(node))
        waiting += [following for following, _ in node.next_functions]
    return False


def check_pass(inner: Any, roots: list[Tensor]) -> None:
    """Refuse a backward pass that goes on behind the function's own part of the graph.

    Before it begins: what was captured so far is a part then, and Python runs the pass.
    """
    for stand in inner.stands.values():
        if isinstance(stand, Tensor) and stand.requires_grad:
            met = met_by_passes(inner.originals[id(stand)])
            if met != LEAF and leads(roots, [stand]):
                why = CannotCapture(f"a backward pass inside the function that comes to {met}")
                why.is_pass = True
                raise why


class Known:
    """One tensor that the captured function can see, and what stands for it meanwhile.

    The function works on the stand-in: nobody else ever sees it, and the tensor is not touched.
    """

    def __init__(self, tracer: Any, tensor: Tensor, geometry: Any = None) -> None:
        """`geometry`: shape and strides that it should seem to have instead of its own."""
        if not _is_usual(type(tensor)):
            raise CannotCapture(f"a tensor of class {type(tensor).__name__}")
        array = tensor._array
        if type(array) is not numpy.ndarray and type(array) not in LIBRARIES:
            raise CannotCapture("a tensor without data")
        self.tensor = tensor
        self.array = array
        self.requires_grad = tensor.requires_grad
        self.grad: Known | None = None  # of its .grad, where there is one
        shown = array if geometry is None else meta.strided(geometry[0], array.dtype, geometry[1])
        self.traced: TracedArray = tracer.stand_in(shown)
        self.value = self.traced.value
        self.value.place = CPU
        if type(array) in LIBRARIES:
            tracer.library = LIBRARIES[type(array)]
            self.value.place = tracer.library.device(array)
        self.stand = stand = new(type(tensor))
        stand._array = self.traced
        stand._node = new_leaf_mark() if self.requires_grad else None
        stand._cell = INFERENCE_CELL if tensor._cell is INFERENCE_CELL else UNWRITTEN
        if tensor._grad_dtype != "same":
            stand._grad_dtype = tensor._grad_dtype

    def check(self) -> None:
        """Refuse changes that a program cannot make anew."""
        stand = self.stand
        if stand._array is not self.traced:
            raise CannotCapture("the data of a tensor from outside was exchanged")
        node = stand._node
        usual = node.__class__ is Leaf if self.requires_grad else node is None
        if not usual:
            raise CannotCapture(
                "a tensor from outside was changed in place and the change is differentiated"
            )

    @property
    def written(self) -> bool:
        """Whether the function wrote to it."""
        return self.traced.storage is not None and self.traced.storage.version > 0
