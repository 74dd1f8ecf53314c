"""What happened in a step, without its arrays: calls, what was saved, and who asked for it."""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.autograd.budget.values import Call, Value

__all__ = ["CallRecord", "Trace", "ValueRecord"]


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

    def __init__(self) -> None:
        self.calls: list[CallRecord] = []
        self.values: list[ValueRecord] = []
        self.events: list[tuple[str, int]] = []  # call, save, ask or release, and of what
        self.seconds: dict[Any, float] = {}  # the least that a call of a key took

    def called(self, call: Call, values: list[Value]) -> None:
        """Note a call, and say how long it takes."""
        key = (call.name, tuple(value.shape for value in values))
        least = self.seconds.get(key)
        if least is None or call.seconds < least:
            self.seconds[key] = call.seconds
        else:
            call.seconds = least
        number = len(self.calls)
        for value in values:
            base = -1 if value.base is None else value.base.position
            self._add(value, number, base if value.base is None or base >= 0 else -2)
        inputs = tuple(one.position for one in call.inputs if one.position >= 0)
        made = tuple(value.position for value in values)
        self.calls.append(CallRecord(key, inputs, made, call.room))
        self.events.append(("call", number))

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
