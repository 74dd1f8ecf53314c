"""Where values come from, what was asked of them, and the one function that asks it again.

A `Source` says how to reach a value from outside again: from an argument, or from an object that
the guards hold themselves (a class's dictionary, a module's globals, a closure cell), by items and
attributes. A guard is a question about one source, with the answer that the capture saw. `write`
turns all of them into the text of one function: every source is fetched once, in the order in which
the capture first read it, and the first answer that differs ends it.
"""

from __future__ import annotations

import collections
import math
import types
from typing import Any

from pullback.core.writer import define_once

__all__ = ["MISSING", "Guards", "Source", "reaching", "same_value"]


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


MISSING = _Missing()


class Source:
    """How a value is reached: from a parent by an item, an attribute or a call; or a root."""

    __slots__ = ("key", "kind", "parent", "what")

    def __init__(self, kind: str, parent: Source | None, what: Any) -> None:
        self.kind, self.parent, self.what = kind, parent, what
        mark = what if isinstance(what, str | int | tuple) and kind != "root" else id(what)
        try:
            hash(mark)
        except TypeError:
            mark = id(what)
        self.key: Any = (kind, parent.key if parent else None, type(what), mark)

    def item(self, key: Any) -> Source:
        """An item of a list, tuple or deque."""
        return Source("item", self, key)

    def value(self, key: Any) -> Source:
        """A value of a dict, asked for without a default that a class may make."""
        return Source("value", self, key)

    def attr(self, name: str) -> Source:
        """An attribute that no Python code computes."""
        return Source("attr", self, name)

    def call(self, args: tuple[Any, ...] = ()) -> Source:
        """What a function gives that may be asked at each call."""
        return Source("call", self, args)

    def __str__(self) -> str:
        match self.kind:
            case "root":
                name = getattr(self.what, "__name__", "")
                if isinstance(self.what, types.MappingProxyType):
                    name = self.what.get("__qualname__", self.what.get("__module__", ""))
                elif isinstance(self.what, dict):
                    return str(self.what.get("__name__", "a dict"))
                elif isinstance(self.what, types.CellType):
                    return "a closure"
                return f"{name or type(self.what).__name__}"
            case "leaf":
                return f"argument {self.what}"
            case "place":
                return f"argument {self.what[-1]}"
            case "item" | "value":
                is_text = isinstance(self.what, str | bytes | int | float | tuple | type(None))
                key = repr(self.what) if is_text else f"a {type(self.what).__name__}"
                return f"{self.parent}[{key}]"
            case "attr" if self.what == "__dict__" and self.parent is not None:
                return str(self.parent)
            case "attr":
                return f"{self.parent}.{self.what}"
        return f"{self.parent}()"


def same_value(one: Any, other: Any) -> bool:
    """Equal in type and value, with the sign of zero, and NaN equal to itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return (one == other and math.copysign(1, one) == math.copysign(1, other)) or (
            one != one and other != other
        )
    if isinstance(one, complex):
        return same_value(one.real, other.real) and same_value(one.imag, other.imag)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, slice):
        return same_value((one.start, one.stop, one.step), (other.start, other.stop, other.step))
    return bool(one == other)


def same_keys(one: Any, keys: tuple[Any, ...]) -> bool:
    """Whether a mapping, or a set, holds these keys in this order."""
    if len(one) != len(keys):
        return False
    pairs = zip(one, keys, strict=True)
    return all(a is b or same_value(a, b) for a, b in pairs)


def same_array(one: Any, other: Any) -> bool:
    """A NumPy array with the elements of the kept copy."""
    alike = type(one) is type(other) and one.shape == other.shape and one.dtype == other.dtype
    return alike and one.strides == other.strides and one.tobytes() == other.tobytes()


class Guards:
    """The guards of one capture, each once."""

    def __init__(self) -> None:
        self.all: dict[Any, tuple[str, Source, Any]] = {}

    def add(self, kind: str, source: Source, answer: Any = None) -> None:
        """One more question with its answer."""
        mark = None
        if kind in ("absent", "present", "len", "unset"):
            mark = answer if isinstance(answer, str | int) else id(answer)
        elif kind in ("same", "apart"):
            mark = answer.key
        self.all.setdefault((kind, source.key, mark), (kind, source, answer))

    def __len__(self) -> int:
        return len(self.all)

    def write(self) -> Any:
        """The function `change(leaves)`: None if all is as it was, else the number of a guard."""
        return _Writer(list(self.all.values())).function()

    def numbers(self) -> list[tuple[Source, Any]]:
        """Where real and whole numbers were read that are guarded by value, with those numbers."""
        listed = self.all.values()
        return [
            (s, one) for kind, s, one in listed if kind == "value" and type(one) in (int, float)
        ]

    @staticmethod
    def fetching(sources: list[Source]) -> Any:
        """A function of the leaves that fetches what stands at sources."""
        writer = _Writer([])
        names = [writer.fetch(one) for one in sources]
        body = "\n    ".join([*writer.lines, f"return ({''.join(f'{one}, ' for one in names)})"])
        return define_once(f"def found(leaves):\n    {body}", writer.scope, "numbers", "found")

    def told(self, number: int) -> str:
        """What is no longer as it was, in the user's terms."""
        kind, source, answer = list(self.all.values())[number]
        match kind:
            case "absent":
                return f"{answer!r} is in {source} and was not"
            case "present":
                return f"{answer!r} was in {source}"
            case "len":
                return f"{source} has another length than {answer}"
            case "keys":
                return f"{source} has other keys, or in another order"
            case "value":
                return f"{source} was {_shown(answer)}"
            case "number":
                return f"{source} is no number like {_shown(answer)}"
            case "text":
                return f"{source} was {answer[1]}"
            case "same":
                return f"{source} and {answer} were one object"
            case "apart":
                return f"{source} and {answer} were two objects"
        return f"{source} was another {type(answer).__name__}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


class _Writer:
    """Writes the function that asks all guards."""

    def __init__(self, guards: list[tuple[str, Source, Any]]) -> None:
        self.guards = guards
        self.kinds = {one.key: answer for kind, one, answer in guards if kind == "type"}
        self.scope: dict[str, Any] = {
            "same_value": same_value, "same_keys": same_keys, "same_array": same_array,
            "MISSING": MISSING, "get": dict.get, "type": type, "len": len, "float": float,
            "hasattr": hasattr, "bytes": bytes, "getattr": getattr, "Exception": Exception,
        }  # fmt: skip
        self.names: dict[Any, str] = {}
        self.held: dict[int, str] = {}
        self.lines: list[str] = []

    def hold(self, value: Any) -> str:
        """A name for an object in the written function's scope."""
        if id(value) not in self.held:
            self.held[id(value)] = f"k{len(self.held)}"
            self.scope[self.held[id(value)]] = value
        return self.held[id(value)]

    def literal(self, value: Any) -> str:
        if value is None or isinstance(value, bool) or type(value) in (str, int):
            return repr(value)
        return self.hold(value)

    def fetch(self, source: Source) -> str:
        """The name of a source's value, with the line that fetches it."""
        if source.kind == "root":
            return self.hold(source.what)
        if source.kind == "leaf":
            return f"leaves[{source.what}]"
        if source.kind == "place":
            return "given" + "".join(f"[{self.literal(one)}]" for one in source.what)
        known = self.names.get(source.key)
        if known is not None:
            return known
        assert source.parent is not None
        parent = self.fetch(source.parent)
        name = self.names[source.key] = f"v{len(self.names)}"
        self.lines.append(f"{name} = {self._text(source, parent)}")
        return name

    def _text(self, source: Source, parent: str) -> str:
        what = source.what
        match source.kind:
            case "item":
                return f"{parent}[{self.literal(what)}]"
            case "value":
                key = self.literal(what)
                if self._is_proxy(source.parent):
                    return f"{parent}.get({key}, MISSING)"  # its own method, which C has
                return f"get({parent}, {key}, MISSING)"
            case "attr":
                return f"{parent}.{what}" if what.isidentifier() else f"getattr({parent}, {what!r})"
            case _:
                return f"{parent}(*{self.hold(what)})" if what else f"{parent}()"

    def _is_proxy(self, source: Source | None) -> bool:
        """Whether it is the view of a dict, or of a class's, which `dict.get` does not take."""
        view = types.MappingProxyType
        if source is None:
            return False
        return self.kinds.get(source.key) is view or isinstance(source.what, view)

    def _test(self, kind: str, one: str, answer: Any) -> str:
        match kind:
            case "is" | "same":
                if kind == "same":
                    return f"{one} is {self.fetch(answer)}"
                plain = answer is None or isinstance(answer, bool)
                return f"{one} is {repr(answer) if plain else self.hold(answer)}"
            case "apart":
                return f"{one} is not {self.fetch(answer)}"
            case "value" if type(answer) in (int, str):
                return f"type({one}) is {self.hold(type(answer))} and {one} == {answer!r}"
            case "value" if type(answer) is float and 0 < abs(answer) < 1e300:
                return f"type({one}) is float and {one} == {answer!r}"
            case "value":
                return f"same_value({one}, {self.hold(answer)})"
            case "type":
                return f"type({one}) is {self.hold(answer)}"
            case "number" if type(answer) is float:
                return f"type({one}) is float and {one} - {one} == 0 and {one} != 0"
            case "number":
                return f"type({one}) is {self.hold(type(answer))} and {one} > 1"
            case "absent":
                return f"{self.literal(answer)} not in {one}"
            case "present":
                return f"{self.literal(answer)} in {one}"
            case "unset":
                return f"not hasattr({one}, {answer!r})"
            case "len":
                return f"len({one}) == {answer}"
            case "text":
                return f"{self.hold(answer[0])}({one}) == {answer[1]!r}"
            case "keys":
                return f"same_keys({one}, {self.hold(answer)})"
            case "array":
                return f"same_array({one}, {self.hold(answer)})"
        return f"bytes({one}) == {self.hold(answer)}"

    def function(self) -> Any:
        if not self.guards:
            return _nothing_changes
        for number, (kind, source, answer) in enumerate(self.guards):
            self.lines.append(f"n = {number}")
            one = self.fetch(source)
            test = self._test(kind, one, answer)
            if self.lines[-1] == f"n = {number}":  # nothing to fetch that could fail
                self.lines.pop()
            self.lines.append(f"if not ({test}): return {number}")
        # Whatever a look raises (a key is gone, an attribute is not there) is a change too.
        body = "\n        ".join(["n = 0", *self.lines])
        text = f"""def change(leaves):
    try:
        {body}
    except Exception:
        return n
"""
        return define_once(text, self.scope, "guards", "change")


def reaching(sources: list[Source], guards: Guards) -> Any:
    """The function `reach(leaves, given)`: what is at these sources, or None where a look fails."""
    writer = _Writer(list(guards.all.values()))
    listed = ", ".join([writer.fetch(one) for one in sources])
    body = "\n        ".join([*writer.lines, f"return [{listed}]"])
    text = f"""def reach(leaves, given):
    try:
        {body}
    except Exception:
        return None
"""
    return define_once(text, writer.scope, "reach", "reach")


def _nothing_changes(leaves: Any) -> None:
    """A program that depends on its arguments alone."""


# The exact classes whose items are read as items; others are objects.
SEQUENCES: tuple[type, ...] = (list, tuple, collections.deque)
DICTS: tuple[type, ...] = (
    dict, collections.OrderedDict, collections.defaultdict, collections.Counter,
    types.MappingProxyType,
)  # fmt: skip
SETS: tuple[type, ...] = (set, frozenset)
