"""Parameter: a leaf that a model means to train."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.dtype import get_default_dtype
from pullback.core.tensor import Tensor, new, wrap
from pullback.core.version import own_cell
from pullback.operators.tensor.printing import describe

__all__ = ["Buffer", "Parameter"]


class Parameter(Tensor):
    """A leaf on the memory of `data`, which requires grad unless told otherwise.

    What operators compute from it are plain tensors. Its own class is how a model finds it.

    >>> import pullback as torch
    >>> torch.nn.Parameter(torch.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        """Take the memory and version counter of `data`; without data, be empty."""
        if data is None:
            data = wrap(numpy.empty(0, get_default_dtype().numpy))
        elif not isinstance(data, Tensor):
            raise TypeError(
                f"Parameter(): data must be a Tensor, got {type(data).__name__}; make one with "
                "torch.tensor()."
            )
        made = new(cls)
        made._array = data._array
        made._node = None
        made._cell = own_cell(data)
        if requires_grad:
            made._set_requires_grad(True)
        return made

    def __repr__(self) -> str:
        return "Parameter containing:\n" + describe(self)

    def __format__(self, spec: str) -> str:
        # Unlike a plain tensor of no dimensions, this is not written as its number.
        return object.__format__(self, spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """A parameter on a copy of the memory, without gradient."""
        if id(self) not in memo:
            copied = wrap(self._array.copy(order="K"))
            memo[id(self)] = type(self)(copied, self.requires_grad)
        return memo[id(self)]


class Buffer(Tensor):
    """A tensor that becomes a module's buffer when it is assigned; part of its state if persistent.

    >>> import pullback as torch
    >>> module = torch.nn.Module()
    >>> module.count = torch.nn.Buffer(torch.zeros(1))
    >>> list(module.state_dict())
    ['count']
    """

    __slots__ = ()

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        """Take the memory and version counter of `data`; without data, be empty."""
        if data is None:
            data = wrap(numpy.empty(0, get_default_dtype().numpy))
        made = new(cls)
        made._array = data._array
        made._node = None
        made._cell = own_cell(data)
        made.persistent = persistent
        return made
