"""Two tensors change places: whoever holds one finds what the other was."""

from __future__ import annotations

import weakref
from typing import Any

from pullback.core.hooks import leaf_hooks_in_use
from pullback.core.node import Leaf, Node, new_leaf_mark
from pullback.core.tensor import Tensor
from pullback.core.version import INFERENCE_CELL, bump, own_cell

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
        # Hooks of leaves are found by a weak reference of our own.
        if weakref.getweakrefcount(tensor) - (leaf_hooks_in_use.get(id(tensor)) is tensor):
            raise RuntimeError(f"swap_tensors: something refers weakly to the {name} tensor.")
    hooked = [leaf_hooks_in_use.pop(id(one), None) is not None for one in (t1, t2)]
    _end_graphs(t1)
    _end_graphs(t2)
    _leave_saved_values_behind(t1, t2)
    first, second = _taken(t1), _taken(t2)
    _given(t1, second)
    _given(t2, first)
    for tensor, is_hooked in zip((t2, t1), hooked, strict=True):
        if is_hooked:
            leaf_hooks_in_use[id(tensor)] = tensor


def _end_graphs(tensor: Tensor) -> None:
    """Let a graph that ends in this leaf refuse to: what it would add to is another tensor then."""
    place: Any = tensor._node
    mark = place if isinstance(place, Leaf) else getattr(place, "node", None)
    if not isinstance(mark, Leaf):
        return
    accumulator = mark()
    if accumulator is None:
        return
    Node.register_prehook(accumulator, _refuse)
    leaf_hooks_in_use[id(accumulator)] = accumulator  # so that passes look for hooks
    if mark is place:
        tensor._node = new_leaf_mark()
    else:  # a view that is a leaf
        place.node = new_leaf_mark()


def _refuse(grad_outputs: Any) -> None:
    raise RuntimeError(
        "backward: swap_tensors has put another tensor in the place of a leaf of this graph (as "
        "Module conversions do under set_swap_module_params_on_conversion), so there is nothing "
        "left to add its gradient to. Call backward before the swap, or compute again after it."
    )


def _leave_saved_values_behind(*tensors: Tensor) -> None:
    """Let a graph that has saved one of these notice: no version that it has seen comes again."""
    cells = [own_cell(one) for one in tensors if one._cell is not INFERENCE_CELL]
    if len(cells) == len(tensors):
        newest = max(int(cell[0]) for cell in cells)
        for cell, tensor in zip(cells, tensors, strict=True):
            cell[0] = newest
            bump(tensor, "swap_tensors")


def _taken(tensor: Tensor) -> tuple[Any, ...]:
    kind = type(tensor)
    return kind, tensor._array, tensor._cell, tensor._node, dict(tensor.__dict__)


def _given(tensor: Any, state: tuple[Any, ...]) -> None:
    tensor.__class__, tensor._array, tensor._cell, tensor._node, attributes = state
    tensor.__dict__.clear()
    tensor.__dict__.update(attributes)
