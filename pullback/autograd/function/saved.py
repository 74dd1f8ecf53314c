"""What a custom Function's node saved: how it is kept, read, packed and forgotten.

The usual case, tensors that are not results of the function, needs no more than the tuple that the
user gave and the versions; `Kept` is for everything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import ndarray

from pullback.autograd.function import errors as function_errors
from pullback.core import errors, saved
from pullback.core.arrays import Array
from pullback.core.forward import open_levels
from pullback.core.mode import Mode, current, get_mode, with_grad
from pullback.core.node import Output
from pullback.core.saved import Freed, Packed
from pullback.core.tensor import Tensor, class_for, new
from pullback.core.version import own_cell, writes
from pullback.core.view import View


class Kept(list[Any]):
    """One entry for each saved value: None, an `AsIs`, an `OwnResult` or what a pack hook made."""

    __slots__ = ("once",)

    once: bool  # read once: the reader gets the last reference


class AsIs:
    """A tensor that comes back as the same object."""

    __slots__ = ("tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.version = tensor._cell[0]

    def value(self, node: Any, index: int) -> Tensor:
        """The tensor, if nobody wrote to it."""
        cell = self.tensor._cell
        if cell[0] != self.version:
            raise changed_since(node, index, self.tensor, cell, self.version)
        return self.tensor


class OwnResult:
    """A result of the function itself, without the tensor that holds the node."""

    __slots__ = ("array", "cell", "number", "version")

    def __init__(self, tensor: Tensor, number: int) -> None:
        self.array: Array = tensor._array
        self.cell = own_cell(tensor)
        self.version = self.cell[0]
        self.number = number

    def value(self, node: Any, index: int) -> Tensor:
        """A new tensor on the same memory, in the result's place in the graph."""
        if self.cell[0] != self.version:
            raise changed_since(node, index, self.array, self.cell, self.version)
        array = self.array
        tensor = new(Tensor if type(array) is ndarray else class_for(array))
        tensor._array = array
        tensor._cell = self.cell
        tensor._node = node._output(self.number)
        for level in open_levels():
            level.put(tensor, level.kept(node, str(self.number)))
        return tensor


class FromHook:
    """What a pack hook returned, and how to get the tensor back."""

    __slots__ = ("number", "packed")

    def __init__(self, packed: Packed, number: int | None) -> None:
        self.packed = packed
        self.number = number  # of the function's own result, else None

    def value(self, node: Any, index: int) -> Any:
        """Run the unpack hook."""
        return self.packed.unpack(node if self.number is None else node._output(self.number))


class _Handed:
    """Stands where the values were before their only reader took them."""

    __slots__ = ()


HANDED = _Handed()


def own_number(node: Any, tensor: Tensor) -> int | None:
    """Which result of `node` the tensor is, if it is one."""
    edge = tensor._node
    if edge is node:
        return 0
    if edge.__class__ is View:
        written = edge.base._node  # a view that the function changed is known to its base
        if getattr(written, "inner", None) is node:
            return 0
        edge = edge.node
        if edge is node:
            return 0
    return edge.nr if edge.__class__ is Output and edge.node is node else None


def save(cls: Any, node: Any, tensors: Any, mode: Mode) -> None:
    """Save what forward gave to save_for_backward, now that the results have their history."""
    if tensors.__class__ is not tuple and not isinstance(tensors, tuple):
        raise function_errors.staging_not_tuple("to_save", tensors)
    if cls.clear_saved_tensors_on_access or mode.saved_hooks:
        keep(node, tensors, mode, once=cls.clear_saved_tensors_on_access)
        return
    versions = []
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            break
        if own_number(node, tensor) is not None:
            break
        versions.append(tensor._cell[0])
    else:
        node._saved, node._versions = tensors, versions
        return
    keep(node, tensors, mode, once=False)


def keep(node: Any, tensors: tuple[Any, ...], mode: Mode, *, once: bool) -> None:
    """Save `tensors`, some of which are None, results of the function, or given to hooks."""
    kept = Kept()
    kept.once = once
    for index, tensor in enumerate(tensors):
        if tensor is None:
            kept.append(None)
            continue
        if not isinstance(tensor, Tensor):
            raise function_errors.saves_non_tensor(index, tensor)
        number = own_number(node, tensor)
        if mode.saved_hooks:
            packed = saved.pack(tensor, output=number is not None)
            kept.append(FromHook(packed, number))
        else:
            kept.append(AsIs(tensor) if number is None else OwnResult(tensor, number))
    node._saved = kept


def read(node: Any) -> tuple[Any, ...]:
    """`ctx.saved_tensors` in any but the usual case."""
    kept = node._saved
    if kept.__class__ is Kept:
        values = tuple(
            None if entry is None else entry.value(node, index) for index, entry in enumerate(kept)
        )
        if kept.once:
            node._saved = HANDED
        return values
    raise _gone(node)


def _gone(node: Any) -> RuntimeError:
    if type(node._saved) is Freed:
        return errors.graph_freed(node, node._saved)
    return function_errors.cleared_on_access(type(node).name(node))


def changed_since(
    node: Any, index: int, value: Tensor | Array, cell: Any, version: int
) -> RuntimeError:
    """The error for a saved value that was overwritten."""
    return errors.changed_in_place(
        node, f"saved_tensors[{index}]", value, cell[0], writes(cell, version), version
    )


class SavedTensor(saved.SavedTensor):
    """One value that a Function saved; `register_hooks` chooses how it is kept."""

    __slots__ = ("_index",)

    _index: int

    @classmethod
    def _of(cls, node: Any, index: int) -> SavedTensor:
        made = cls.__new__(cls)
        made._node, made._index = node, index
        return made

    def register_hooks(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        """Give the value to `pack_hook` now; `unpack_hook` gives it back whenever it is needed."""
        for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise TypeError(f"{name} must be callable, got {type(hook).__name__}.")
        entry = self._entry()
        if entry is None:
            raise RuntimeError("Hooks cannot be registered on a saved None.")
        if entry.__class__ is FromHook:
            raise RuntimeError("This saved tensor has hooks already; there can be one pair only.")
        tensor = entry.value(self._node, self._index)
        number = entry.number if isinstance(entry, OwnResult) else None
        packed = Packed(None, unpack_hook, tensor, output=number is not None)
        packed.data = _packed(pack_hook, tensor._alias())
        _as_kept(self._node)[self._index] = FromHook(packed, number)

    def unpack(self) -> Any:
        """The value as backward will get it."""
        entry = self._entry()
        return None if entry is None else entry.value(self._node, self._index)

    @property
    def data(self) -> Any:
        """What is kept: the tensor, or what the pack hook made of it."""
        entry = self._entry()
        if isinstance(entry, FromHook):
            return entry.packed.data
        return self.unpack()

    @property
    def unpack_hook(self) -> Callable[[Any], Tensor] | None:
        """The hook that gives the value back, if there is one."""
        entry = self._entry()
        return entry.packed.unpack_hook if isinstance(entry, FromHook) else None

    def _entry(self) -> Any:
        return _as_kept(self._node)[self._index]


def raw(node: Any) -> tuple[SavedTensor, ...]:
    """`ctx._raw_saved_tensors`."""
    return tuple(SavedTensor._of(node, index) for index in range(len(_as_kept(node))))


def _as_kept(node: Any) -> Kept:
    values = node._saved
    if values.__class__ is Kept:
        return values
    if values.__class__ is not tuple:
        raise _gone(node)
    kept = Kept()
    kept.once = False
    for tensor, version in zip(values, node._versions, strict=True):
        entry = AsIs(tensor)
        entry.version = version
        kept.append(entry)
    node._saved = kept
    return kept


def _packed(pack_hook: Callable[[Tensor], Any], alias: Tensor) -> Any:
    before = get_mode()
    version = alias._cell[0]
    try:
        current.set(with_grad(before, grad=False))
        data = pack_hook(alias)
    finally:
        current.set(before)
    if alias._cell[0] != version:
        raise errors.pack_hook_wrote()
    return data
