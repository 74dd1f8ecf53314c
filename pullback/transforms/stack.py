"""The function transforms that run in this thread, as one stack; and where a tensor stands in it.

Derivatives and maps keep books of their own (core/nesting.py and the levels of the mode): nothing
needs the whole stack but who asks to see it, so it is put together here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.core.mode import get_mode
from pullback.core.nesting import Derivative, running
from pullback.core.view import edge_of
from pullback.transforms.batched import Batched, base_of
from pullback.transforms.vmap_level import VmapLevel

__all__ = ["Entry", "derivative_of", "level_number", "stack"]


class Entry(NamedTuple):
    """One running transform; the outermost has the number 1."""

    kind: str  # "Vmap", "Grad", "Jvp" or "Functionalize"
    number: int
    running: Any  # a Derivative, or the level of a map


def stack() -> list[Entry]:
    """All running transforms, outermost first."""
    levels = get_mode().levels
    derivatives = running.get()
    found: list[Any] = []
    for place in range(len(levels) + 1):
        found += [one for one in derivatives if len(one.levels) == place]
        found += levels[place : place + 1]
    return [Entry(_kind(one), number, one) for number, one in enumerate(found, 1)]


def _kind(one: Any) -> str:
    if isinstance(one, Derivative):
        return "Grad" if one.level is None else "Jvp"
    return "Vmap" if isinstance(one, VmapLevel) else "Functionalize"


def derivative_of(tensor: Any) -> Derivative | None:
    """The innermost running derivative that the tensor takes part in."""
    base = base_of(tensor)
    one: Derivative
    for one in reversed(running.get()):
        if one.level is not None:
            if one.level.get(base) is not None:
                return one
            continue
        if any(base_of(given) is base for given in one.inputs):
            return one
        edge = edge_of(base)
        if edge is not None and one.scope is not None and edge._seq < one.scope.start:
            return one
    return None


def level_number(tensor: Any) -> int:
    """The number of the innermost transform that sees the tensor as its own; -1: none does.

    -2 for a tensor of a map that has ended.
    """
    if tensor.__class__ is Batched and not tensor.level.open:
        return -2
    own = [derivative_of(tensor)]
    if tensor.__class__ is Batched:
        own.append(tensor.level)
    numbers = [e.number for e in stack() if any(e.running is o for o in own if o is not None)]
    return max(numbers, default=-1)
