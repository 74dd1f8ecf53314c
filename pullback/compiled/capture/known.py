"""A tensor from outside, while a capture runs: on an array without data, with no history.

What the function did to it is read off at the end, and everything is put back.
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
from pullback.core.node import Leaf, new_leaf_mark
from pullback.core.tensor import Tensor

__all__ = ["Known"]


def _is_usual(kind: type) -> bool:
    """Whether tensors of a class are plain ones, or parameters, whose file is loaded then."""
    parameters = sys.modules.get("pullback.nn.parameter")
    return kind is Tensor or (parameters is not None and kind is parameters.Parameter)


class Known:
    """One tensor that the captured function can see, and what it was before."""

    def __init__(self, tracer: Any, tensor: Tensor, geometry: Any = None) -> None:
        """`geometry`: shape and strides that it should seem to have instead of its own."""
        if not _is_usual(type(tensor)):
            raise CannotCapture(f"a tensor of class {type(tensor).__name__}")
        array = tensor._array
        if type(array) is not numpy.ndarray and type(array) not in LIBRARIES:
            raise CannotCapture("a tensor without data")
        self.tensor = tensor
        self.array = array
        self.node = tensor._node
        self.cell = tensor._cell
        self.writes = list(tensor._cell) if isinstance(tensor._cell, list) else None
        self.grad = tensor._stored_grad
        self.hooks = tensor._leaf_hooks
        self.requires_grad = tensor.requires_grad
        shown = array if geometry is None else meta.strided(geometry[0], array.dtype, geometry[1])
        self.traced: TracedArray = tracer.stand_in(shown)
        self.value = self.traced.value
        self.value.place = CPU
        if type(array) in LIBRARIES:
            tracer.library = LIBRARIES[type(array)]
            self.value.place = tracer.library.device(array)
        tensor._array = self.traced
        tensor._node = new_leaf_mark() if self.requires_grad else None
        if self.hooks is not None:
            tensor._leaf_hooks = None

    def restore(self) -> None:
        """The tensor as it was."""
        tensor = self.tensor
        self.found = (tensor._array, tensor._node, tensor._stored_grad)
        tensor._array, tensor._node = self.array, self.node
        if self.writes is not None:
            self.cell[:] = self.writes
        tensor._cell = self.cell
        if tensor._stored_grad is not self.grad:
            tensor._stored_grad = self.grad
        if self.hooks is not None:
            tensor._leaf_hooks = self.hooks

    def check(self) -> None:
        """Refuse changes that a program cannot make anew; after `restore`."""
        array, node, _ = self.found
        if array is not self.traced:
            raise CannotCapture("the data of a tensor from outside was exchanged")
        usual = node.__class__ is Leaf if self.requires_grad else node is None
        if not usual:
            raise CannotCapture(
                "a tensor from outside was changed in place and the change is differentiated"
            )

    @property
    def written(self) -> bool:
        """Whether the function wrote to it."""
        return self.traced.storage is not None and self.traced.storage.version > 0
