"""The store of real arrays: runs calls again, and puts values out."""

from __future__ import annotations

import time
from typing import Any

from pullback.autograd.budget.spill import Spilled, can_spill
from pullback.autograd.budget.store import Lost, Store
from pullback.autograd.budget.values import Call, Given, Value
from pullback.core.mode import current, get_mode
from pullback.core.node import new_leaf_mark
from pullback.core.tensor import Tensor, wrap
from pullback.core.version import own_cell

__all__ = ["ArrayStore"]

_LEAF = new_leaf_mark()  # of tensors whose graph nobody walks


class ArrayStore(Store):
    """The store of real arrays."""

    def __init__(self, bound: int, *, spills: bool, folder: str | None) -> None:
        super().__init__(bound, spills=spills)
        self.folder = folder
        self.foreign: dict[Value, None] = {}  # held, but perhaps by the program as well

    def run(self, call: Call, have: dict[Value, Any], *, may_write: bool) -> list[Any]:
        """Call the operator again, as it was called."""
        args = _filled(call.args, have, call.writes and not may_write)
        kwargs = call.kwargs
        if kwargs:
            kwargs = {name: _filled((one,), have, False)[0] for name, one in kwargs.items()}
        before = get_mode()
        try:
            current.set(before if call.mode is None else call.mode)
            result = call.run(*args, **kwargs)
        finally:
            current.set(before)
        if isinstance(result, tuple | list):
            return [one._array for one in result]
        return [result._array]

    def hold(self, value: Value) -> None:
        """Hold the array: not counted until the program lets go of it."""
        tensor = value.tensor()
        if tensor is not None:
            value.array, value.cell = tensor._array, own_cell(tensor)
            if not (tensor.is_leaf and tensor.requires_grad):
                self.foreign[value] = None

    def put_out(self, value: Value) -> None:
        """To a file, or from a device to the host."""
        array = value.array
        if can_spill(array):
            value.file = Spilled(array, self.folder)
            self.counts.seconds += value.file.seconds
            speed = 2 * value.file.seconds / max(value.nbytes, 1)
            self.per_byte = 0.75 * self.per_byte + 0.25 * speed

    def read_back(self, value: Value) -> Any:
        """From where it is."""
        began = time.perf_counter()
        array = value.file.load()
        self.counts.seconds += time.perf_counter() - began
        return array


def _filled(args: Any, have: dict[Value, Any], is_written: bool) -> list[Any]:
    """Arguments with tensors in the places of values."""
    made: list[Any] = []
    for one in args:
        kind = one.__class__
        if kind is Given:
            made.append(_tensor(one, have, is_copy=is_written and not made))
        elif kind is tuple or kind is list:
            made.append(kind(_filled(one, have, False)))
        else:
            made.append(one)
    return made


def _tensor(given: Given, have: dict[Value, Any], *, is_copy: bool) -> Tensor:
    value = given.value
    array = have.get(value)
    if array is None:
        tensor = value.tensor()
        array = None if tensor is None else tensor._array
    if array is None:
        raise Lost
    made = wrap(array.copy("K") if is_copy else array)
    if given.requires_grad:
        made._node = _LEAF  # an operator may compute otherwise where no gradient is wanted
    return made
