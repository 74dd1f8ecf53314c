"""The batch of a TensorDataset at once: the rows of its tensors, without items in between.

What `default_collate` would stack of single items, in one step of NumPy for each tensor.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from pullback.core.explain.cause import inherited
from pullback.core.mode import fast, get_mode
from pullback.core.tensor import Tensor, blanks
from pullback.core.version import INFERENCE_CELL
from pullback.core.view import View
from pullback.operators.dispatch.observers import observers
from pullback.utils.data._utils.collate import (
    collate_tensor_fn,
    default_collate,
    default_collate_fn_map,
)
from pullback.utils.data.dataset import TensorDataset

__all__ = ["gives_rows", "rows_at"]

_item = TensorDataset.__getitem__


def gives_rows(dataset: Any, collate_fn: Any) -> bool:
    """Whether batches are rows of tensors, and nobody has changed how they are made."""
    own = type(dataset) is TensorDataset and TensorDataset.__getitem__ is _item
    return own and collate_fn is default_collate


def rows_at(tensors: tuple[Any, ...], places: Any) -> list[Tensor] | None:
    """These rows of each tensor; None where more is to be asked than which ones."""
    mode = get_mode()
    recording = mode is fast.plain
    if not (recording or mode is fast.no_grad) or observers.active is not None or not places:
        return None
    if default_collate_fn_map.get(Tensor) is not collate_tensor_fn or places.__class__ is not list:
        return None
    count = len(tensors[0]._array) if tensors and tensors[0]._array.__class__ is ndarray else 0
    for place in places:
        if place.__class__ is not int or not 0 <= place < count:
            return None
    for one in tensors:
        if not _is_plain(one, count):
            return None
    made = []
    for one in tensors:
        batch = next(blanks)
        batch._array = one._array[places]
        batch._node = None
        batch._cell = inherited(one) if recording else fast.unrecorded
        made.append(batch)
    return made


def _is_plain(tensor: Any, count: int) -> bool:
    """Whether it is data without history in the memory of the host, with so many rows."""
    if tensor.__class__ is not Tensor or tensor._bits or tensor._cell is INFERENCE_CELL:
        return False
    node, array = tensor._node, tensor._array
    if node.__class__ is View and node.node is None and node.base._node is None:
        node = None
    return node is None and array.__class__ is ndarray and array.ndim > 0 and len(array) == count
