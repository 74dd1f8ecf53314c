"""Steps of a program, at which faults are put in, and what a fault is.

A step is a call of a function of pullback's, or one that it makes of C. Errors, lack of memory and
interrupts come each where Python can meet them: an interrupt at the start of a function and after a
call of C, never between two lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy

import pullback

_OURS = (os.path.dirname(pullback.__file__) + os.sep, "<pullback")
# One moment nobody can guard: the block is over, and `__exit__` has not begun.
_UNGUARDED = "__exit__"


class FaultError(RuntimeError):
    """An error that no code of ours expects."""


class Kind(NamedTuple):
    """What is raised, and at which events of the interpreter."""

    error: type[BaseException]
    events: frozenset[str]


KINDS = {
    "error": Kind(FaultError, frozenset({"call"})),
    "memory": Kind(MemoryError, frozenset({"c_call"})),
    "interrupt": Kind(KeyboardInterrupt, frozenset({"call", "c_return"})),
}


@cache
def is_ours(code: CodeType) -> bool:
    """Whether code is the package's, or was written by it."""
    return code.co_filename.startswith(_OURS)


def _asks_for_memory(function: Any) -> bool:
    """Whether a C function is one of NumPy's, which make arrays."""
    owner = getattr(function, "__self__", None)
    return isinstance(owner, numpy.ndarray | numpy.ufunc) or "numpy" in (function.__module__ or "")


def is_step(kind: Kind, frame: FrameType, event: str, arg: Any) -> bool:
    """Whether an event of the interpreter's is one at which a fault of this kind can come."""
    return (
        event in kind.events
        and is_ours(frame.f_code)
        and (kind.error is not MemoryError or _asks_for_memory(arg))
        and not (event == "call" and frame.f_code.co_name == _UNGUARDED)
    )


@contextmanager
def stepping(kind: Kind, act: Callable[[int, FrameType], None]) -> Iterator[None]:
    """Call `act` with the number and the frame of each step of ours; it may raise there."""
    count = 0

    def step(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        if is_step(kind, frame, event, arg):
            count += 1
            act(count, frame)

    sys.setprofile(step)
    try:
        yield
    finally:
        sys.setprofile(None)


def where(frame: FrameType) -> str:
    """The line that a frame is at."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
