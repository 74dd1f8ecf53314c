"""Two tensors change places: whoever holds one finds what the other was."""

from __future__ import annotations

import weakref
from typing import Any

from pullback.core.tensor import Tensor

__all__ = ["swap_tensors"]


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Swap class, memory, history and attributes of two tensors.

    >>> import pullback as torch
    >>> a, b = torch.zeros(1), torch.ones(2)
    >>> torch.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([1., 1.]), tensor([0.]))
    """
    for name, tensor in (("first", t1), ("second", t2)):
        if weakref.getweakrefcount(tensor):
            raise RuntimeError(f"swap_tensors: something refers weakly to the {name} tensor.")
        if _in_a_graph(tensor):
            raise RuntimeError(
                f"swap_tensors: a graph has the {name} tensor among its leaves; drop its results "
                "first."
            )
    first, second = _taken(t1), _taken(t2)
    _given(t1, second)
    _given(t2, first)


def _in_a_graph(tensor: Tensor) -> bool:
    mark: Any = tensor._node
    return tensor.is_leaf and callable(mark) and mark() is not None


def _taken(tensor: Tensor) -> tuple[Any, ...]:
    kind = type(tensor)
    return kind, tensor._array, tensor._cell, tensor._node, dict(tensor.__dict__)


def _given(tensor: Any, state: tuple[Any, ...]) -> None:
    tensor.__class__, tensor._array, tensor._cell, tensor._node, attributes = state
    tensor.__dict__.clear()
    tensor.__dict__.update(attributes)
