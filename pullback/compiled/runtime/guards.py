"""What a captured program was made for: asked before each call, most telling first."""

from __future__ import annotations

from typing import Any

from pullback.compiled.capture.captured import Captured
from pullback.compiled.capture.known import facts
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.sources import same_value
from pullback.core.arrays import LIBRARIES
from pullback.core.device import get_default_device
from pullback.core.dtype import get_default_dtype
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_unflatten

__all__ = ["ANY", "Guards", "outline"]

ANY = object()  # stands before a class, or None: other guards look at the value
_BY_VALUE = frozenset({bool, int, float, str, bytes, type(None)})


def outline(args: Any) -> tuple[Any, ...]:
    """What arguments look like, sizes aside: where it differs, nothing can be the same."""
    return tuple([
        one if one.__class__ in _BY_VALUE
        else one._array.ndim if isinstance(one, Tensor)
        else one.__class__
        for one in args
    ])  # fmt: skip


class Guards:
    """The conditions under which an entry may run."""

    def __init__(self, captured: Captured, leaves: list[Any]) -> None:
        self.mode = captured.mode
        self.arguments = captured.arguments
        self.default_dtype = captured.default_dtype
        self.default_device = captured.default_device
        self.world = captured.world
        self.leaves: list[Any] = [
            (ANY, captured.loose[n]) if n in captured.loose else _wanted(leaf)
            for n, leaf in enumerate(leaves)
        ]
        self.held = [
            (one.place, _wanted(one.place)) for one in captured.inputs if one.kind == "held"
        ]
        self.found = captured.found
        # The same tensor at two places of the arguments, or an argument that the function also
        # finds elsewhere.
        tensors = [(n, leaf) for n, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        first: dict[int, int] = {}
        self.same: list[tuple[int, int | None, Any]] = []
        for number, leaf in tensors:
            if id(leaf) in captured.world.tensors:
                self.same.append((number, None, leaf))
            elif first.setdefault(id(leaf), number) != number:
                self.same.append((number, first[id(leaf)], None))
        # What writes, or asks which is which, was captured for tensors that are not one.
        self.apart: list[int] = []
        if captured.writes or captured.stores or captured.world.identities:
            self.apart = [n for n, leaf in tensors if first.get(id(leaf)) == n]
        # Whether .grad was there, and what it was, matters only to programs that touch it.
        touched = bool(captured.stores) or any(one.kind == "grad" for one in captured.inputs)
        self.grads: list[tuple[Any, Any, Any]] = []
        if touched:
            owners = {one.place for one in captured.inputs if one.kind == "grad"}
            for number, one in enumerate(captured.inputs):
                has_one = one.requires_grad or number in owners
                if has_one and one.kind in ("held", "argument"):
                    held = one.place if one.kind == "held" else None
                    tensor = held if held is not None else leaves[one.place]
                    self.grads.append((held, one.place, _of_grad(tensor._stored_grad)))

    def outline(self) -> tuple[Any, ...] | None:
        """What arguments that fit look like; None where they are nested, or have names."""
        count = len(self.leaves)
        if tree_unflatten(range(count), self.arguments) != (tuple(range(count)), {}):
            return None
        return tuple([
            one[1] if one[0] is None and one[1].__class__ in _BY_VALUE
            else one[1].__class__ if one[0] is None
            else len(one[2])
            for one in self.leaves
        ])  # fmt: skip

    def exact_outline(self) -> tuple[Any, ...] | None:
        """The same with sizes and strides; None where a plain look at arguments is not enough."""
        made: list[Any] = []
        for one in self.leaves:
            if one[0] is None and one[1].__class__ in _BY_VALUE:
                made.append((one[1].__class__, one[1]))
            elif one[0] is None or one[0] is ANY:
                return None
            else:
                made.append((one[2], one[1], one[3]))
        return tuple(made)

    def _are_apart(self, leaves: list[Any]) -> bool:
        """Whether tensors that were several are: arguments, and what the function finds."""
        ids = {id(leaves[n]) for n in self.apart}
        return len(ids) == len(self.apart) and ids.isdisjoint(self.world.tensors)

    def fits_found(self, found: list[Any], leaves: list[Any]) -> bool:
        """Whether tensors that a call fetches are as they were, and no others that it has."""
        if not found:
            return True
        for one, wanted in zip(found, self.found, strict=True):
            if not isinstance(one, Tensor) or _differs(one, wanted) is not None:
                return False
        ids = set(map(id, found))
        return (
            len(ids) == len(found)
            and ids.isdisjoint(map(id, leaves))
            and ids.isdisjoint(self.world.tensors)
        )

    def miss(
        self, mode: Any, spec: Any, leaves: list[Any], wanted_leaves: list[Any] | None = None
    ) -> str | None:
        """Why an entry does not fit a call; None if it does.

        `wanted_leaves`: arguments at other sizes, where the entry is one of a family.
        """
        if mode is not self.mode:
            return "grad mode differs"
        if spec != self.arguments:
            return "the structure of the arguments differs"
        listed = self.leaves if wanted_leaves is None else wanted_leaves
        for number, (leaf, wanted) in enumerate(zip(leaves, listed, strict=True)):
            reason = _differs(leaf, wanted)
            if reason is not None:
                return f"argument {number}: {reason}"
        for number, other, tensor in self.same:
            if leaves[number] is not (tensor if other is None else leaves[other]):
                return f"argument {number} was the same tensor as another one"
        if self.apart and not self._are_apart(leaves):
            return "two arguments are the same tensor, which were two"
        if get_default_dtype() is not self.default_dtype:
            return "the default dtype differs"
        if get_default_device() is not self.default_device:
            return "the default device differs"
        for tensor, wanted in self.held:
            reason = _differs(tensor, wanted)
            if reason is not None:
                return f"a tensor that the function holds: {reason}"
        for held, place, then in self.grads:
            tensor = held if held is not None else leaves[place]
            now = _of_grad(tensor._stored_grad)
            if now != then:
                if now is None or then is None:
                    return "a .grad is there that was not, or the reverse"
                return "a .grad is of another class or dtype, or recorded where it was not"
        return self.world.change(leaves)


def _of_grad(grad: Any) -> Any:
    """What a program takes for granted of a `.grad`, whose sizes are those of its tensor."""
    return None if grad is None else (type(grad), grad._array.dtype, grad.requires_grad)


def _wanted(leaf: Any) -> Any:
    return facts(leaf) if isinstance(leaf, Tensor) else (None, leaf)


def _where(array: Any) -> Any:
    """The type of an array; of one on a device, also which."""
    library = LIBRARIES.get(type(array))
    return type(array) if library is None else (type(array), library.device(array))


def _differs(leaf: Any, wanted: Any) -> str | None:
    if wanted[0] is ANY:
        fits = wanted[1] is None or type(leaf) is wanted[1]
        return None if fits else f"a {type(leaf).__name__} and not a {wanted[1].__name__}"
    if wanted[0] is None:
        known = wanted[1]
        if leaf is known or (is_plain(leaf) and same_value(leaf, known)):
            return None
        return f"was {known!r}, is {leaf!r}"
    if type(leaf) is not wanted[0]:
        return f"a {type(leaf).__name__} and not a {wanted[0].__name__}"
    array = leaf._array
    if type(array) is not wanted[5] and _where(array) != wanted[5]:
        return f"on {leaf.device}"
    if array.dtype is not wanted[1] and array.dtype != wanted[1]:
        return f"dtype {array.dtype} and not {wanted[1]}"
    if array.shape != wanted[2]:
        return f"size {array.shape} and not {wanted[2]}"
    if array.strides != wanted[3] and array.size:
        return f"strides {array.strides} and not {wanted[3]}"
    if leaf.requires_grad is not wanted[4]:
        return f"requires_grad is {leaf.requires_grad}"
    return None
