"""Where a function stood when its capture had to stop, and what Python does there.

The instruction that ended a capture is done by Python itself, on real values; what comes behind it
is another part. So the frames are kept: each with its position, its variables and its stack. The
innermost stands before that instruction, those that called it behind their calls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.compiled.interpreter.versions import Step

__all__ = ["LOOKING", "Point", "live_names", "operands_of"]

_FIXED = {
    "LOAD_ATTR": 1, "STORE_ATTR": 2, "DELETE_ATTR": 1, "BINARY_SUBSCR": 2, "STORE_SUBSCR": 3,
    "DELETE_SUBSCR": 2, "BINARY_OP": 2, "COMPARE_OP": 2, "CONTAINS_OP": 2, "UNARY_NOT": 1,
    "UNARY_NEGATIVE": 1, "UNARY_INVERT": 1, "UNARY_POSITIVE": 1, "TO_BOOL": 1,
    "POP_JUMP_IF_TRUE": 1, "POP_JUMP_IF_FALSE": 1, "JUMP_IF_TRUE_OR_POP": 1,
    "JUMP_IF_FALSE_OR_POP": 1, "GET_ITER": 1, "FOR_ITER": 1, "UNPACK_SEQUENCE": 1, "UNPACK_EX": 1,
    "FORMAT_SIMPLE": 1, "FORMAT_WITH_SPEC": 2, "CONVERT_VALUE": 1, "BEFORE_WITH": 1,
    "IMPORT_NAME": 2,
}  # fmt: skip
# Names of functions that look at the variables of whoever calls them.
LOOKING = frozenset({"locals", "vars", "dir", "eval", "exec"})
CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})


class Point(NamedTuple):
    """One frame that waits."""

    frame: Any
    position: int
    stack: list[Any]
    kwnames: tuple[str, ...]


def operands_of(step: Step) -> int | None:
    """How many values of the stack an instruction takes; None of one that only a frame can do."""
    if step.name == "CALL":
        return int(step.arg) + 2
    if step.name == "CALL_KW":
        return int(step.arg) + 3
    if step.name == "CALL_FUNCTION_EX":
        return 3 + int(step.arg & 1)
    return _FIXED.get(step.name)


def live_names(program: list[Step], handlers: list[Any], start: int, *, called: bool) -> set[str]:
    """Names of variables that some instruction still asks for, from a position on.

    `called`: the frame stands behind a call that is not over, and may raise.
    """
    found: set[str] = set()
    seen: set[int] = set()
    waiting = [start]
    if called and start and handlers[start - 1] is not None:
        waiting.append(handlers[start - 1].target)
    while waiting:
        place = waiting.pop()
        while place < len(program) and place not in seen:
            seen.add(place)
            step = program[place]
            if isinstance(step.value, str):
                found.add(step.value)
            if handlers[place] is not None:
                waiting.append(handlers[place].target)
            if step.target is not None:
                waiting.append(step.target)
            if step.name in ("JUMP", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"):
                break
            place += 1
    return found
