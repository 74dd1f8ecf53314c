"""What happened in a step, without its arrays: calls, what was saved, and who asked for it."""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.autograd.budget.values import Call, Value

__all__ = ["CallRecord", "Followed", "Trace", "ValueRecord"]


class CallRecord(NamedTuple):
    """A call: by name and sizes, with positions of values."""

    key: Any
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    room: int


class ValueRecord(NamedTuple):
    """A value; `call` and `base` are -1 where there is none, `base` is -2 outside."""

    nbytes: int
    call: int
    base: int


class Trace:
    """One step, in order."""

    is_followed = False

    def __init__(self) -> None:
        self.calls: list[CallRecord] = []
        self.values: list[ValueRecord] = []
        self.events: list[tuple[str, int]] = []  # call, save, ask or release, and of what
        self.seconds: dict[Any, float] = {}  # the least that a call of a key took

    def called(self, call: Call, values: list[Value]) -> bool:
        """Note a call, and say how long it takes, and what room."""
        key = (call.name, tuple(value.shape for value in values))
        least = self.seconds.get(key)
        if least is None or call.seconds < least:
            self.seconds[key] = call.seconds
        else:
            call.seconds = least
        number = len(self.calls)
        roots = dict.fromkeys(value.root for value in call.inputs)
        own = [value for value in values if value.base is None]
        call.room = sum(one.nbytes for one in (*roots, *own) if one.outside is None)
        for value in values:
            base = -1 if value.base is None else value.base.position
            self._add(value, number, base if value.base is None or base >= 0 else -2)
        inputs = tuple(one.position for one in call.inputs if one.position >= 0)
        made = tuple(value.position for value in values)
        self.calls.append(CallRecord(key, inputs, made, call.room))
        self.events.append(("call", number))
        return True

    def _add(self, value: Value, call: int, base: int) -> None:
        value.position = len(self.values)
        self.values.append(ValueRecord(value.nbytes, call, base))

    def saved(self, value: Value) -> None:
        """A node saved a value that owns its memory."""
        if value.position < 0:
            self._add(value, -1, -1)
        self.events.append(("save", value.position))

    def asked(self, value: Value) -> None:
        """A node asks for a value."""
        if value.position >= 0:
            self.events.append(("ask", value.position))

    def released(self, value: Value) -> None:
        """Nobody will ask for a value again."""
        if value.position >= 0:
            self.events.append(("release", value.position))

    def next(self) -> Trace:
        """An empty one, that knows how long calls take."""
        made = Trace()
        made.seconds = self.seconds
        return made


class Followed:
    """A step that goes as another did: there is nothing to note but that."""

    is_followed = True

    def __init__(self, trace: Trace, calls: int, values: int) -> None:
        self.trace, self.seconds = trace, trace.seconds
        self._calls, self._values = calls, values  # that there were so far

    def called(self, call: Call, values: list[Value]) -> bool:
        """Take a call for the next of the other step's; False if it is not."""
        known = self.trace.calls
        if self._calls >= len(known):
            return False
        record = known[self._calls]
        name, shapes = record.key
        if name != call.name or len(shapes) != len(values):
            return False
        for value, shape in zip(values, shapes, strict=True):
            if value.shape != shape:
                return False
        at = self._values
        for value in values:
            value.position = at
            at += 1
        self._calls += 1
        self._values = at
        least = self.seconds[record.key]
        if call.seconds < least:  # the first time, what it needs may have been loaded
            self.seconds[record.key] = call.seconds
        else:
            call.seconds = least
        call.room = record.room
        return True

    def left(self) -> Trace:
        """A trace of the step so far, which goes its own way from here."""
        made, like, number = self.trace.next(), self.trace, self._calls
        made.calls, made.values = like.calls[:number], like.values[: self._values]
        ends = ("call", number)
        until = like.events.index(ends) if number < len(like.calls) else len(like.events)
        made.events = like.events[:until]
        return made

    def saved(self, value: Value) -> None:
        """A node saved a value that owns its memory."""
        if value.position < 0:
            value.position = self._values
            self._values += 1

    def asked(self, value: Value) -> None:
        """A node asks for a value."""

    def released(self, value: Value) -> None:
        """Nobody will ask for a value again."""

    def next(self) -> Followed:
        """The same from its beginning."""
        return Followed(self.trace, 0, 0)
