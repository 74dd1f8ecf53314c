"""A call as a tree: programs, and between them instructions that Python does.

An entry whose capture ended early gives `Going`: the leaves of the frames that wait, and the
operands of the instruction. Python does that instruction; where it leads is a branch of the tree,
with a compiled function of its own whose "function" is the rest of the frames.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.results import Built, build
from pullback.compiled.interpreter.frames import Frame, Walk
from pullback.compiled.parts.eager import Eager
from pullback.compiled.parts.points import operands_of
from pullback.compiled.parts.state import Kept, State, Values, Waiting, frames_of
from pullback.core.mode import INFERENCE, NO_GRAD, PLAIN, changed, current, get_mode
from pullback.core.origin import Origin
from pullback.core.trees.pytree import tree_structure

__all__ = ["LEAVES", "Break", "Going", "Resumed", "broken"]

LEAVES = tree_structure(0)


class _Mine(threading.local):
    """The thread's own interpreter, for one instruction at a time."""

    eager: Eager | None = None


_mine = _Mine()


class Going(NamedTuple):
    """A call between two parts."""

    at: Break
    leaves: list[Any]
    operands: list[Any]


class Break:
    """An instruction that Python does, and the parts behind it."""

    home: Any = None  # the mode that the function was called in
    is_pass = False  # whether it is a backward pass over what parts recorded

    def __init__(self, waiting: list[Waiting], why: str, origin: Origin | None, mode: Any) -> None:
        self.waiting, self.why, self.origin, self.mode = waiting, why, origin, mode
        self.parts: dict[Any, Any] = {}  # where the instruction leads: the part behind
        self.fluid: frozenset[int] = frozenset()  # leaves that are numbers of the part before
        # Where the frames stand that called the last one; nothing else of them is asked.
        self.outer = [_standing(one) for one in reversed(waiting[:-1])]

    @property
    def name(self) -> str:
        """The instruction."""
        last = self.waiting[-1]
        return str(Frame(None, last.code, {}, {}, last.names).program[last.position].name)

    def step(self, going: Going, parts: Any) -> Any:
        """Do the instruction, and go on."""
        last = self.waiting[-1]
        frame = Frame(None, last.code, {}, {}, last.names)
        frame.position, frame.kwnames = last.position, last.kwnames
        frame.stack = list(going.operands)
        if get_mode() is not self.mode:
            current.set(self.mode)
        eager = _mine.eager
        if eager is None:
            eager = _mine.eager = Eager()
        try:
            eager.one(frame, self.outer)
        except BaseException as error:  # a handler of the function's may wait for an exit, too
            return self._raised(eager, going.leaves, error)
        key = (frame.position, len(frame.stack))
        part = self.parts.get(key)
        if part is None:
            resumed = Resumed(self, frame.position, len(going.leaves), len(frame.stack))
            part = parts(resumed)
            if part is not resumed:
                self.parts[key] = part
        return part(*going.leaves, *frame.stack)

    def _raised(self, eager: Eager, leaves: list[Any], error: BaseException) -> Any:
        """The instruction raised: who handles it, Python will find."""
        frames, _ = frames_of(self.waiting, leaves, eager)
        frames[-1].position += 1
        frames[-1].kwnames = ()
        try:
            return eager.resume(frames, error)
        finally:
            del error  # else it would hold this frame, and this frame it


def _standing(one: Waiting) -> Frame:
    frame = Frame(None, one.code, {}, {}, one.names)
    frame.position = one.position
    return frame


class Resumed:
    """The rest of a function behind a break, as a function of leaves."""

    def __init__(self, at: Break, position: int, count: int, pushed: int) -> None:
        """`pushed`: so many values the instruction left on the stack."""
        self.at, self.position, self.count, self.pushed = at, position, count, pushed
        code = at.waiting[0].code
        self.__name__, self.__qualname__ = code.co_name, code.co_qualname
        self.__module__ = str(at.waiting[0].names.get("__name__"))

    def frames(self, leaves: Any, interpreter: Any) -> tuple[list[Frame], Any]:
        """The frames, as they stand behind the break."""
        frames, made = frames_of(self.at.waiting, list(leaves[: self.count]), interpreter)
        frames[-1].position, frames[-1].kwnames = self.position, ()
        frames[-1].stack += leaves[self.count :]
        return frames, made

    def __call__(self, *leaves: Any) -> Any:
        """Run it eagerly."""
        eager = Eager()
        return eager.resume(self.frames(leaves, eager)[0])


class Broken(Built):
    """Puts together what a part hands on."""

    def __init__(self, at: Break, recipes: tuple[Any, ...], count: int) -> None:
        super().__init__(("break", recipes), count)
        self.at = at

    def unflatten(self, leaves: Any) -> Any:
        """The call between two parts, and what is written before the next."""
        listed = list(leaves)
        made: dict[int, Any] = {}
        kept, operands, values = [[build(one, listed, made) for one in part]
                                  for part in self.recipe[1]]  # fmt: skip
        going = Going(self.at, kept, operands)
        return (going, values) if self.writes else going

    writes = False  # whether anything is written to objects outside before the break


def broken(inner: Any, why: CannotCapture, log: list[Any], numbers: list[Any]) -> Any:
    """What a capture that stopped gives: leaves, their tree, and objects that each call fetches."""
    last = why.chain[-1]
    count = operands_of(last.frame.program[last.position])
    mode = _usual(get_mode())
    if count is None or mode is None or len(last.stack) < count:
        raise CannotCapture(why.reason, why.origin)
    del inner.calls[why.calls :]
    try:
        return _broken(inner, why, log, numbers, count, mode)
    except CannotCapture as error:  # what stopped it is the reason to be told
        raise CannotCapture(f"{why.reason}, and behind it {error.reason}", why.origin) from None


def _broken(
    inner: Any, why: CannotCapture, log: list[Any], numbers: list[Any], count: int, mode: Any
) -> Any:
    *outer, last = why.chain
    start = len(last.stack) - count
    operands, last = last.stack[start:], last._replace(stack=last.stack[:start])
    values = Values(inner, numbers)
    given = [values.recipe(one, 0) for one in operands]
    written = [values.recipe(one, 0) for write in log for one in write.values]
    if any(isinstance(one, Walk) for one in values.owned.values()):
        raise CannotCapture("a generator is handed to native code")
    state = State(inner, dict(values.owned))
    waiting = [*map(state.frame, outer), state.frame(last, called=False)]
    handed = [values.recipe(one, 0) for one in state.leaves]
    at = Break(waiting, why.reason, why.origin, mode)
    at.is_pass = why.is_pass
    at.fluid = frozenset(n for n, one in enumerate(state.leaves) if isinstance(one, int | float))
    tree = Broken(at, (handed, given, written), len(values.leaves))
    tree.writes = bool(log)
    kept = [one for one in values.leaves if type(one) is Kept]
    return values.leaves, tree, kept


def _usual(mode: Any) -> Any:
    """The mode of this moment as a thread without a capture has it; None of an unusual one."""
    found = changed(mode, tracing=None)
    return found if found is PLAIN or found is NO_GRAD or found is INFERENCE else None
