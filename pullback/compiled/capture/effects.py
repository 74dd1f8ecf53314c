"""What a call does to Python objects outside, after its program ran: the writes, in their order.

What was written to is reached anew by each call, before the program runs, the way that the capture
reached it. Values are rebuilt with the results. A capture saw objects that are two as two: writes
to one would be seen through the other, so a call in which they are one is another program's.
"""

from __future__ import annotations

from typing import Any

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter import library
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.sources import Source, reaching
from pullback.core.tensor import Tensor

__all__ = ["Effects", "Reached"]


class Reached:
    """What a call fetches before it runs: owners of writes, tensors and numbers that vary."""

    def __init__(self, inner: Any, log: list[Any], kept: list[Any]) -> None:
        """`kept`: objects that a part hands to the next (parts/state.py)."""
        known = {id(one): one for one in inner.kept}
        fixed = ("cell", "class")
        owners = {
            id(one.owner): inner.root(one.owner) if one.kind in fixed else inner.source(one.owner)
            for one in log
        }
        self.places = {key: number for number, key in enumerate(owners)}
        found, numbers = inner.found.values(), [source for source, _ in inner.late.sources]
        self.counts = len(owners), len(found), len(numbers), len(kept)
        apart = _mutable(inner, known) if log else []
        self.roots = frozenset(id(source.what) for _, source in apart if source.kind == "root")
        fetched = [source for _, source in apart if source.kind != "root"]
        self.held = [source.what for _, source in apart if source.kind == "root"]
        twins = [one for pair in inner.twins for one in pair] if log else []
        self.twins = len(twins)
        handed = [one.source for one in kept]
        wanted = [*owners.values(), *found, *numbers, *handed, *twins, *fetched]
        if any(one is None for one in wanted) or any(map(_is_called, owners.values())):
            raise CannotCapture("an object is written that cannot be reached again")
        self.reach = reaching(wanted, inner.guards)

    def __call__(self, leaves: list[Any], given: Any) -> tuple[list[Any], ...] | None:
        """Owners, tensors and numbers; None where they cannot be had, or two of them are one."""
        reached = self.reach(leaves, given)
        if reached is None:
            return None
        parts, start = [], 0
        for count in self.counts:
            parts.append(reached[start : start + count])
            start += count
        twins = reached[start : start + self.twins]
        if any(one is not other for one, other in zip(twins[::2], twins[1::2], strict=True)):
            return None
        start += self.twins
        apart = set(map(id, reached[start:]))
        if len(apart) != len(reached) - start or not apart.isdisjoint(self.roots):
            return None
        return tuple(parts)


def _is_called(source: Source | None) -> bool:
    """Whether it is a part of what a function gives."""
    while source is not None:
        if source.kind in ("call", "grad"):
            return True
        source = source.parent
    return False


def _mutable(inner: Any, known: dict[int, Any]) -> list[tuple[Any, Source]]:
    """Objects from outside that can be written to, with their sources."""
    found = []
    for key, source in inner.sources.items():
        one = known[key]
        fixed = is_plain(one) or isinstance(one, (*library.IDENTITY, Tensor, tuple, frozenset))
        if not fixed and source.kind not in ("call", "grad"):
            found.append((one, source))
    return found


class Effects:
    """The writes of one program."""

    def __init__(self, log: list[Any], reached: Reached) -> None:
        self.steps = []
        for write in log:
            self.steps.append((write.kind, reached.places[id(write.owner)], write.name,
                               len(write.values)))  # fmt: skip

    def __call__(self, owners: list[Any], values: list[Any]) -> None:
        """Do them."""
        start = 0
        for kind, place, name, count in self.steps:
            given = values[start : start + count]
            start += count
            _done(kind, owners[place], name, given)

    def __len__(self) -> int:
        return len(self.steps)


def _done(kind: str, owner: Any, name: Any, values: list[Any]) -> None:
    if kind == "item":
        owner[name] = values[0]
    elif kind == "del":
        del owner[name]
    elif kind == "call":
        getattr(type(owner), name)(owner, *values)
    elif kind == "cell":
        owner.cell_contents = values[0]
    elif kind == "class":
        type.__setattr__(owner, name, values[0])
    else:
        object.__setattr__(owner, name, values[0])
