"""Values kept for backward: how they are checked, unpacked and forgotten.

A node keeps each value in two slots. A tensor: the object itself and the version it had. A number
or other plain value: the value and None. An output: its array and the version, with the counter
cell in a third slot, since a reference to the tensor would close a cycle. The fast path compares
versions and nothing else; whatever is unusual (freed, packed by hooks, changed since) fails that
comparison and is sorted out here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

from pullback.core import errors
from pullback.core.forward import LEVELS, open_levels
from pullback.core.mode import NO_GRAD, Hooked, changed, current, get_mode
from pullback.core.origin import Origin
from pullback.core.passes import evaluating
from pullback.core.version import detached_before, writes
from pullback.core.view import View, edge_of

if TYPE_CHECKING:
    from pullback.core.node import OperatorNode
    from pullback.core.tensor import Tensor

Pack = Callable[[Any], Any]

NEVER = -1  # a version that no tensor has


class Freed:
    """Stands where a saved value was; remembers which call freed it, and from where it came."""

    __slots__ = ("_code", "_lasti", "roots")

    _cell = (NEVER,)  # never equal to a saved version, so the fast path stops here

    def __init__(self, frame: FrameType | None, roots: Sequence[Any] = ()) -> None:
        if frame is None:
            self._code: CodeType | None = None
            self._lasti = 0
        else:
            self._code = frame.f_code
            self._lasti = frame.f_lasti
        self.roots = roots  # weak references to the nodes at which the pass began

    @property
    def by(self) -> Origin | None:
        """The line of the user's program that freed it."""
        return None if self._code is None else Origin(self._code, self._lasti)


class Packed:
    """Stands where a saved value was given to a user's pack hook."""

    __slots__ = ("data", "node", "output", "tangents", "unpack_hook")

    tangents: Sequence[tuple[Any, Any]]

    _cell = (NEVER,)

    def __init__(self, data: Any, unpack_hook: Pack, original: Tensor, *, output: bool) -> None:
        self.data = data
        self.unpack_hook = unpack_hook
        self.output = output
        # The unpacked tensor gets the original's place in the graph. An output's own node is the
        # one that holds this object: known when unpacking, not kept.
        view = original._node.__class__ is View
        self.node = None if output else edge_of(original) if view else original._node
        self.tangents = _tangents_of(original)

    def unpack_array(self) -> Any:
        """What the user's hook gives back, for rules that run on arrays."""
        tensor = self.unpack_hook(self.data)
        if not hasattr(tensor, "_cell"):
            raise errors.unpack_hook_returned(type(tensor))
        return tensor._array

    def unpack(self, edge: Any) -> Any:
        """Call the user's hook and put the result in the original's place in the graph.

        For an output that is `edge`; inputs know their own.
        """
        tensor = self.unpack_hook(self.data)
        if not hasattr(tensor, "_cell"):
            raise errors.unpack_hook_returned(type(tensor))
        node = edge if self.output else self.node
        if node is None and tensor._node is None and not self.tangents:
            return tensor  # nothing to add: the very object that the hook returned
        placed = tensor._alias()
        placed._node = node
        for level, tangent in self.tangents:
            level.put(placed, tangent)
        return placed


def _tangents_of(tensor: Tensor) -> list[tuple[Any, Any]]:
    """Hooks see values; what perturbations say of them is kept beside."""
    return [(level, g) for level in open_levels() if (g := level.get(tensor)) is not None]


def pack(tensor: Tensor, *, output: bool) -> Packed:
    """Give a value to the innermost pair of saved-tensor hooks; they run with grad mode off."""
    pack_hook, unpack_hook = get_mode().saved_hooks[-1]
    data = call_pack(pack_hook, tensor)
    return Packed(data, unpack_hook, tensor, output=output)


def pack_plainly(mode: Hooked, tensor: Tensor, node: Any, *, output: bool) -> Packed:
    """As `pack`, where hooks are all that is unusual; `node` is where the value's gradient goes."""
    version = tensor._cell[0]
    try:
        set_mode(NO_GRAD)
        data = mode.pack(tensor)
    finally:
        set_mode(mode)
    if tensor._cell[0] != version:
        raise errors.pack_hook_wrote()
    packed = _new(Packed)
    packed.data = data
    packed.unpack_hook = mode.unpack
    packed.output = output
    packed.node = node
    packed.tangents = _tangents_of(tensor) if LEVELS else ()
    return packed


_new = object.__new__
set_mode = current.set


def call_pack(pack_hook: Pack, tensor: Tensor) -> Any:
    """What a pack hook makes of a tensor, which it must not write to."""
    before = get_mode()
    version = tensor._cell[0]
    try:
        quiet = before.__class__ is Hooked
        current.set(NO_GRAD if quiet else changed(before, grad=False, saved_hooks=()))
        data = pack_hook(tensor)
    finally:
        current.set(before)
    if tensor._cell[0] != version:
        raise errors.pack_hook_wrote()
    return data


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
    evaluating.set(node)  # for unpack hooks, and the rare way comes here anyway
    value = getattr(node, "s_" + name)
    if type(value) is Packed:
        return value.unpack_array()
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
    if detached_before(cell, version):
        return errors.saved_was_detached(node, name)
    made = writes(cell, version)
    return errors.changed_in_place(node, name, value, cell[0], made, version)


def output_array(node: OperatorNode, name: str) -> Any:
    """The array saved as output `name`."""
    value = getattr(node, "s_" + name)
    if type(value) is Freed:
        raise errors.graph_freed(node, value)
    if type(value) is Packed:
        evaluating.set(node)
        return value.unpack_array()
    cell = getattr(node, "s_" + name + "_c")
    version = getattr(node, "s_" + name + "_v")
    if cell[0] != version:
        raise _changed(node, name, value, cell, version)
    return value


class SavedTensor:
    """One value that a node saved, `node._raw_saved_<name>`; `register_hooks` says how to keep it.

    >>> import pullback as torch
    >>> y = torch.zeros(2, requires_grad=True).exp()
    >>> y.grad_fn._raw_saved_result.register_hooks(lambda t: t.numpy(), torch.from_numpy)
    >>> y.grad_fn._saved_result
    tensor([1., 1.], grad_fn=<ExpBackward0>)
    """

    __slots__ = ("_name", "_node", "_output")

    _node: Any
    _name: str
    _output: bool  # whether it is an output of the node, kept without its tensor

    def __init__(self) -> None:
        raise RuntimeError("A SavedTensor cannot be made by hand; read it from a node.")

    @classmethod
    def of(cls, node: Any, name: str, *, output: bool) -> SavedTensor:
        """The value that `node` saved as `name`."""
        made = cls.__new__(cls)
        made._node, made._name, made._output = node, name, output
        return made

    def register_hooks(self, pack_hook: Pack, unpack_hook: Pack) -> None:
        """Give the value to `pack_hook` now; `unpack_hook` gives it back whenever it is needed."""
        for called, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise TypeError(f"{called} must be callable, got {type(hook).__name__}.")
        node, name, output = self._node, self._name, self._output
        kept = self._kept()
        if type(kept) is Packed:
            raise errors.hooked_twice()
        tensor = self.unpack()
        if not hasattr(tensor, "_cell"):
            raise errors.hook_on_none()
        data = call_pack(pack_hook, tensor._alias())
        packed = Packed(data, unpack_hook, tensor, output=output)
        setattr(node, "s_" + name, packed)
        if output:
            setattr(node, f"s_{name}_c", packed._cell)

    def unpack(self) -> Any:
        """The value as backward will get it."""
        read = self._node._output_tensor if self._output else partial(input_tensor, self._node)
        return read(self._name)

    @property
    def data(self) -> Any:
        """What is kept: the tensor, or what the pack hook made of it."""
        kept = self._kept()
        return kept.data if type(kept) is Packed else self.unpack()

    @property
    def unpack_hook(self) -> Pack | None:
        """The hook that gives the value back, if there is one."""
        kept = self._kept()
        return kept.unpack_hook if type(kept) is Packed else None

    def _kept(self) -> Any:
        kept = getattr(self._node, "s_" + self._name)
        if type(kept) is Freed:
            raise errors.graph_freed(self._node, kept)
        return kept
