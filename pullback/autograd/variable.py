"""Variable: the old name of what a tensor has become. Every tensor is one, and calling it makes one."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor

__all__ = ["Variable"]


class _EveryTensor(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_EveryTensor):
    """A tensor on the memory of `data`; only kept for programs that still say so.

    >>> import pullback as torch
    >>> torch.autograd.Variable(torch.zeros(2), requires_grad=True)
    tensor([0., 0.], requires_grad=True)
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = False) -> Any:
        if data is None:
            from pullback.operators.creation import empty

            data = empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable(): data must be a Tensor, got {type(data).__name__}.")
        return data.detach().requires_grad_(requires_grad)
