"""Values kept for backward: how they are checked, unpacked and forgotten.

A node keeps each value in two slots. A tensor: the object itself and the version it had. A number
or other plain value: the value and None. An output: its array and the version, with the counter cell
in a third slot, since a reference to the tensor would close a cycle. The fast path compares versions
and nothing else; whatever is unusual (freed, packed by hooks, changed since) fails that comparison
and is sorted out here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from pullback.core import errors
from pullback.core.mode import changed, current, get_mode
from pullback.core.origin import Origin
from pullback.core.version import writes
from pullback.core.view import View, edge_of

if TYPE_CHECKING:
    from pullback.core.node import OperatorNode
    from pullback.core.tensor import Tensor

Pack = Callable[[Any], Any]

NEVER = -1  # a version that no tensor has

# Whether the pass that runs in this thread keeps what nodes saved.
keeps_graph: ContextVar[bool] = ContextVar("pullback_keeps_graph", default=True)


class Freed:
    """Stands where a saved value was; remembers which call freed it."""

    __slots__ = ("by",)

    _cell = (NEVER,)  # never equal to a saved version, so the fast path stops here

    def __init__(self, by: Origin | None) -> None:
        self.by = by


class Packed:
    """Stands where a saved value was given to a user's pack hook."""

    __slots__ = ("data", "node", "output", "unpack_hook")

    _cell = (NEVER,)

    def __init__(self, data: Any, unpack_hook: Pack, original: Tensor, *, output: bool) -> None:
        self.data = data
        self.unpack_hook = unpack_hook
        self.output = output
        # The unpacked tensor gets the original's place in the graph. An output's own node is the
        # one
        # that holds this object: known when unpacking, not kept.
        view = original._node.__class__ is View
        self.node = None if output else edge_of(original) if view else original._node

    def unpack(self, node: Any) -> Any:
        """Call the user's hook and put the result in the original's place in the graph."""
        tensor = self.unpack_hook(self.data)
        if not hasattr(tensor, "_cell"):
            raise errors.unpack_hook_returned(type(tensor))
        placed = tensor._alias()
        placed._node = node if self.output else self.node
        return placed


def pack(tensor: Tensor, *, output: bool) -> Packed:
    """Give a value to the innermost pair of saved-tensor hooks; they run with grad mode off."""
    before = get_mode()
    pack_hook, unpack_hook = before.saved_hooks[-1]
    version = tensor._cell[0]
    current.set(changed(before, grad=False, saved_hooks=()))
    try:
        data = pack_hook(tensor._alias() if output else tensor)
    finally:
        current.set(before)
    if tensor._cell[0] != version:
        raise errors.pack_hook_wrote()
    return Packed(data, unpack_hook, tensor, output=output)


def input_tensor(node: OperatorNode, name: str) -> Any:
    """The value saved as input `name`: a tensor, a number, or a tuple of tensors."""
    value = getattr(node, "s_" + name)
    if type(value) is Freed:
        raise errors.graph_freed(node, value)
    version = getattr(node, "s_" + name + "_v")
    if type(value) is tuple:
        for element, expected in zip(value, version or (), strict=True):
            _check(node, name, element, expected)
        return tuple(_unpacked(node, element) for element in value)
    _check(node, name, value, version)
    return _unpacked(node, value)


def input_array(node: OperatorNode, name: str) -> Any:
    """As `input_tensor`, but arrays."""
    value = input_tensor(node, name)
    if type(value) is tuple:
        return tuple(getattr(element, "_array", element) for element in value)
    return getattr(value, "_array", value)


def _unpacked(node: OperatorNode, value: Any) -> Any:
    return value.unpack(node) if type(value) is Packed else value


def _check(node: OperatorNode, name: str, value: Any, version: int | None) -> None:
    if version is not None and type(value) is not Packed and value._cell[0] != version:
        raise _changed(node, name, value, value._cell, version)


def _changed(node: Any, name: str, value: Any, cell: Any, version: int) -> RuntimeError:
    made = writes(cell, version)
    return errors.changed_in_place(node, name, value, cell[0], made, version)


def output_array(node: OperatorNode, name: str) -> Any:
    """The array saved as output `name`."""
    value = getattr(node, "s_" + name)
    if type(value) is Freed:
        raise errors.graph_freed(node, value)
    if type(value) is Packed:
        return value.unpack(node)._array
    cell = getattr(node, "s_" + name + "_c")
    version = getattr(node, "s_" + name + "_v")
    if cell[0] != version:
        raise _changed(node, name, value, cell, version)
    return value
