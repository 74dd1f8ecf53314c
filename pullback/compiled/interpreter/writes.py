"""Writing to what is outside: kept aside while the capture runs, done again at each call.

Reads look first at what was written here (`overlay` of dictionaries, cells and slots; `shadows`,
copies of containers). Each write is in the `log` too, in its order: that is what a program does to
the outside after it ran (capture/effects.py).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter.late import is_late
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.outside import Outside
from pullback.compiled.interpreter.sources import MISSING, Source, same_value
from pullback.core.tensor import Tensor

__all__ = ["Write", "Writes", "is_same", "items_of"]


class Write(NamedTuple):
    """One write, to be done at each call."""

    kind: str  # "item", "del", "class", "cell", "slot", or "call" of a container's method
    owner: Any
    name: Any
    values: tuple[Any, ...]


class Writes(Outside):
    """What was written."""

    def __init__(self, stand: Any) -> None:
        super().__init__(stand)
        self.log: list[Write] = []
        self.owners: dict[Any, tuple[str, Any]] = {}  # keys of the overlay: what was written to
        self.before: dict[int, tuple[Any, Any]] = {}  # the container, its items when copied
        self.replicas: dict[int, tuple[Any, Any]] = {}  # another copy of it, and the container
        self.pending: dict[int, list[Write]] = {}  # calls on containers that nobody has read
        self.reinserted: set[Any] = set()  # (id of a dict, key): deleted, then written again
        self.touched = 0  # how often anything was changed, made here or not

    def set_cell(self, cell: Any, value: Any) -> None:
        """Write a closure's variable."""
        self.touched += 1
        if id(cell) in self.made:
            cell.cell_contents = value
            return
        self.write(self.keep(cell), ("cell", cell), "cell_contents", value)

    def write(self, key: Any, owner: tuple[str, Any], name: Any, value: Any) -> None:
        """Write to a dictionary, class, cell or slot; MISSING deletes."""
        self.touched += 1
        self._check_time(one=owner[1])
        kind, one = owner
        self.owners[key] = owner
        written = self.overlay.setdefault(key, {})
        if written.get(name) is MISSING and value is not MISSING:
            del written[name]  # it comes last then, as in a dictionary
            self.reinserted.add((key, name))
        written[name] = value
        if kind == "dict":
            kind = "del" if value is MISSING else "item"
        self.log.append(Write(kind, one, name, () if value is MISSING else (value,)))

    def logged(self, owner: Any, name: str, values: Any) -> None:
        """A method of a container from outside that changes it."""
        self.touched += 1
        self._check_time(one=owner)
        self.log.append(Write("call", owner, name, tuple(values)))

    def _check_time(self, one: Any) -> None:
        if self.later is not None:
            raise CannotCapture(
                f"a {type(one).__name__} is written by code that runs in the backward pass"
            )

    def _check_log(self) -> None:
        """Refuse a copy that native code has written to: nobody saw what it did."""
        for key, (replica, _) in self.replicas.items():
            for write in self.log:
                if id(write.owner) != key:
                    continue
                name = self.stands.get(id(write.name), write.name)
                if write.kind == "call":
                    values = [self.stands.get(id(one), one) for one in write.values]
                    getattr(replica, write.name)(*values)
                elif write.kind == "item":
                    replica[name] = write.values[0]
                else:
                    del replica[name]
            now, then = items_of(self.shadows[key]), items_of(replica)
            if len(now) != len(then) or not all(map(is_same, now, then)):
                raise CannotCapture("a container from outside that native code has written to")

    def changes(self) -> list[Write]:
        """The writes, where anything is otherwise than it was outside; none if all is as it was."""
        self._check_log()
        if self.pending:
            return self.log
        kept: list[tuple[str, Any, Any, Any]] = []
        for key, written in self.overlay.items():
            kind, owner = self.owners[key]
            for name, value in written.items():
                now = self.originals.get(id(value), value)
                if (key, name) in self.reinserted:
                    return self.log
                if not is_same(_present(kind, owner, name), now):
                    return self.log
                kept.append((kind, owner, name, now))
        for key, (_, items) in self.before.items():
            now = items_of(self.shadows[key])
            if len(now) != len(items) or not all(map(is_same, now, items)):
                return self.log
        for one in kept:
            self._unchanged(*one)
        return []

    def _unchanged(self, kind: str, owner: Any, name: Any, now: Any) -> None:
        """A write of what is there already: it is nothing only as long as that is there."""
        source = self.place_of(kind, owner, name)
        if now is not MISSING:
            self.guards.add("value" if is_plain(now) else "is", source, now)

    def place_of(self, kind: str, owner: Any, name: Any) -> Source:
        """Where a write of the overlay goes."""
        if kind == "cell":
            return self.root(owner).attr("cell_contents")
        if kind == "slot":
            return self.sources[id(owner)].attr(name)
        if kind == "class":
            return self.sources[id(self.class_dict(owner))].value(name)
        return self.sources[id(owner)].value(name)

    def rewritten(self) -> frozenset[Any]:
        """Keys of the places that hold a number or tensor when the call is over, by its doing."""
        found = set()
        for key, written in self.overlay.items():
            kind, owner = self.owners[key]
            for name, value in written.items():
                if value is not MISSING and self._is_fluid(value):
                    found.add(self.place_of(kind, owner, name).key)
        for key, (owner, _) in self.before.items():
            found |= self._rewritten_items(self.shadows[key], owner)
        return frozenset(found)

    def _is_fluid(self, value: Any) -> bool:
        return type(value) in (int, float) or is_late(value) or isinstance(value, Tensor)

    def _rewritten_items(self, shadow: Any, owner: Any) -> set[Any]:
        source = self.sources[id(owner)]
        if isinstance(shadow, dict):
            return {
                source.value(key).key
                for key, one in shadow.items()
                if self._is_fluid(one) and owner.get(key) is not one
            }
        if not isinstance(shadow, list):
            return set()
        pairs = enumerate(zip(shadow, owner, strict=False))
        return {
            source.item(n).key
            for n, (one, then) in pairs
            if self._is_fluid(one) and one is not then
        }


def items_of(container: Any) -> list[Any]:
    """The items of a container, in an order of their own."""
    if isinstance(container, dict):
        return [one for pair in container.items() for one in pair]
    if isinstance(container, set):
        return sorted(container, key=id)
    return list(container)


def _present(kind: str, owner: Any, name: Any) -> Any:
    if kind == "dict":
        return owner.get(name, MISSING)
    if kind == "class":
        return owner.__dict__.get(name, MISSING)
    if kind == "cell":
        try:
            return owner.cell_contents
        except ValueError:
            return MISSING
    return getattr(owner, name, MISSING)


def is_same(one: Any, other: Any) -> bool:
    """Whether it is one object, or an equal number or text."""
    return one is other or (is_plain(one) and is_plain(other) and same_value(one, other))
