"""A weak reference to a tensor that only tells whether it is still there."""

from __future__ import annotations

import weakref

from pullback.core.tensor import Tensor

__all__ = ["WeakTensorRef"]


class WeakTensorRef:
    """Does not keep its tensor alive.

    >>> import pullback as torch
    >>> x = torch.ones(1)
    >>> ref = torch._C._WeakTensorRef(x)
    >>> ref.expired()
    False
    >>> del x
    >>> ref.expired()
    True
    """

    __slots__ = ("_ref",)

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"_WeakTensorRef takes a Tensor, got {type(tensor).__name__}.")
        self._ref = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._ref() is None
