"""A function that is running in the interpreter: its variables, its stack, and where it is."""

from __future__ import annotations

from types import CodeType
from typing import Any, NamedTuple

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter import polyfills
from pullback.compiled.interpreter.versions import Handler, Step, decode
from pullback.core.origin import Origin, internal

__all__ = ["NULL", "Frame", "Saved", "Walk"]

NULL = type("Null", (), {"__repr__": lambda self: "NULL"})()

_decoded: dict[CodeType, tuple[list[Step], list[Handler | None]]] = {}
_MOST_DECODED = 10_000


class Saved(NamedTuple):
    """What a slot held before a comprehension took it for a variable of its own."""

    value: Any
    cell: Any


class Frame:
    """One call of a Python function.

    A slot holds the value of a variable, or the cell that has it: `variables` and `cells`, by name.
    """

    __slots__ = ("before", "calls", "cells", "code", "function", "handlers", "is_tail", "kwnames",
                 "mark", "names", "ours", "position", "program", "stack", "trusted",
                 "variables")  # fmt: skip

    # Of the instruction that runs now: the stack and the names of arguments before it, how much had
    # been changed, and how many calls were written down.
    before: tuple[list[Any], tuple[str, ...]]
    mark: int
    calls: int

    def __init__(self, function: Any, code: CodeType, variables: dict[str, Any],
                 cells: dict[str, Any], names: dict[str, Any]) -> None:  # fmt: skip
        self.function, self.code, self.variables = function, code, variables
        self.cells, self.names = cells, names
        known = _decoded.get(code)
        if known is None:
            if len(_decoded) > _MOST_DECODED:
                _decoded.clear()
            known = _decoded[code] = decode(code)
        self.program, self.handlers = known
        self.stack: list[Any] = []
        self.position = 0
        self.kwnames: tuple[str, ...] = ()
        self.is_tail = False  # whether what it returns is what the caller's instruction gives
        self.trusted = names is vars(polyfills)
        self.ours = bool(internal[code.co_filename])

    @property
    def origin(self) -> Origin:
        """The instruction that runs now."""
        return Origin(self.code, self.program[max(self.position - 1, 0)].offset)

    def take_out(self, name: str) -> Saved:
        """Empty a slot."""
        return Saved(self.variables.pop(name, NULL), self.cells.pop(name, NULL))

    def put_back(self, name: str, saved: Saved) -> None:
        """Let a slot hold what it held."""
        for slots, one in ((self.variables, saved.value), (self.cells, saved.cell)):
            slots.pop(name, None)
            if one is not NULL:
                slots[name] = one


class Walk:
    """A generator whose body is interpreted; to native code it is an iterator."""

    def __init__(self, interpreter: Any, frame: Frame) -> None:
        self.interpreter = interpreter
        self.frame: Frame | None = frame
        self.started = False

    def __iter__(self) -> Walk:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Go on to the next value."""
        frame = self.frame
        if frame is None:
            raise StopIteration
        if self.started:
            frame.stack.append(value)
        elif value is not None:
            raise TypeError("a generator that has not begun takes no value")
        self.started = True
        self.interpreter.touched += 1
        if self.interpreter.later is not None:
            self.interpreter.later.check(self)
        try:
            is_done, value = self.interpreter.run(frame)
        except StopIteration as error:
            self.frame = None
            raise RuntimeError("generator raised StopIteration") from error
        except BaseException:
            self.frame = None
            raise
        if not is_done:
            return value
        self.frame = None
        raise StopIteration(value)

    def waits_inside_a_block(self) -> bool:
        """Whether something in it runs when it is left."""
        frame = self.frame
        if frame is None or not self.started or frame.trusted:
            return False
        return frame.handlers[frame.position - 1] is not None

    def close(self) -> None:
        """Leave it, where nothing in it must run for that."""
        if self.waits_inside_a_block():
            raise CannotCapture("a generator is left inside a try or with block")
        frame, self.frame = self.frame, None
        if frame is None or not self.started:
            return
        if frame.program[frame.position - 2].name == "SEND" and isinstance(frame.stack[-1], Walk):
            frame.stack[-1].close()  # that which it yields from

    def throw(self, *error: Any) -> Any:
        """Nothing that a capture follows; where all is eager, nobody in there handles it."""
        if not self.interpreter.is_eager:
            raise CannotCapture("throw() into a generator")
        self.frame = None
        raise error[1] if len(error) > 1 and error[1] is not None else error[0]
