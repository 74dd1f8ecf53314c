"""Tensors that a traced function makes of numbers alone: `torch.eye(4)`, `torch.tensor([0, 2])`.

Their makers are no operators, so a trace below a transform does not see them; a tensor that it has
not seen made may as well have been computed by NumPy from the arguments. So the makers are watched,
and what they gave must still hold the same bits when the trace is over.
"""

from __future__ import annotations

from contextvars import ContextVar
from types import FunctionType
from typing import Any

import numpy

import pullback
from pullback.core.device import device
from pullback.core.dtype import dtype
from pullback.core.layout import layout, memory_format
from pullback.core.tensor import Tensor
from pullback.core.trees import pytree
from pullback.operators.arrays.strides import root
from pullback.operators.dispatch.intercept import Watched, replaceable
from pullback.operators.indexing import keys

__all__ = ["Given"]

_MAKERS = """
    arange as_tensor asarray eye full linspace logspace ones scalar_tensor tensor tril_indices
    triu_indices zeros
"""
_METHODS = ("new_full", "new_ones", "new_tensor", "new_zeros")  # what is like the tensor is told
_PLAIN = (int, float, complex, str, type(None), dtype, device, layout, memory_format)


class Given:
    """Inside, tensors made of numbers are noted; `tensor in given` asks for one of them.

    One that NumPy wrote to since is none: its numbers may come from the arguments.
    """

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Any]] = {}  # the array that owns the memory, and a copy

    def __enter__(self) -> Given:
        self._before = _noting.set(self)
        _WATCHED.begin(self)
        return self

    def __exit__(self, *_: object) -> None:
        _WATCHED.end(self)
        _noting.reset(self._before)

    def note(self, tensor: Tensor) -> None:
        """Remember a tensor, and what it holds."""
        owner = root(tensor._array)
        self._made[id(owner)] = owner, owner.copy()

    def knows(self, tensor: Tensor) -> bool:
        """Whether a tensor looks at memory that was made so."""
        return id(root(tensor._array)) in self._made

    def __contains__(self, tensor: Tensor) -> bool:
        if not self.knows(tensor):
            return False
        owner, copy = self._made[id(root(tensor._array))]
        return bool(owner.tobytes() == copy.tobytes())  # as it was, NaN and all


_noting: ContextVar[Given | None] = ContextVar("pullback_given", default=None)


def _find() -> list[FunctionType]:
    made: list[Any] = [getattr(pullback, name) for name in _MAKERS.split()]
    made += [getattr(Tensor, name) for name in _METHODS]
    return [one for one in (*made, keys.from_list) if replaceable(one)]


def _around(function: FunctionType, run: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
    made = run(args, kwargs)
    noting = _noting.get()
    if noting is not None and isinstance(made, Tensor) and type(made._array) is numpy.ndarray:
        values = args[1:] if function.__name__ in _METHODS else args
        if all(isinstance(one, _PLAIN) for one in pytree.tree_leaves((values, kwargs))):
            noting.note(made)
    return made


_WATCHED = Watched(_find, _around)
