"""Whether a program pays: it and the function are timed beside each other in its first call.

Only calls that read and change nothing else can run twice: without writes, random numbers and
gradients. The choice is made before the first result is handed out, and kept: equal calls give
equal bits. `options={"never_slower": False}` takes every program.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pullback.compiled.parts.tree import Broken
from pullback.core.tensor import Tensor

__all__ = ["exact_outline", "is_slower", "may_be_tried"]

_TURNS = 5
_LONG = 1_000_000  # ns, from which on one turn must do
_FEW_CALLS = 8  # native programs of more operators always pay
_MARGIN = 1.1
_BY_VALUE = frozenset({bool, int, float, str, bytes, type(None)})


def exact_outline(args: Any) -> tuple[Any, ...] | None:
    """Sizes, dtypes and plain values of arguments; None where there is more to them."""
    made: list[Any] = []
    for one in args:
        if one.__class__ in _BY_VALUE:
            made.append((one.__class__, one))
        elif isinstance(one, Tensor):
            array = one._array
            made.append((array.shape, array.dtype, array.strides))
        else:
            return None
    return tuple(made)


def may_be_tried(entry: Any) -> bool:
    """Whether a call can run twice, and may be slower as a program."""
    captured = entry.captured
    if captured.tangents or captured.writes or captured.stores or entry.checks:
        return False
    if captured.effects is not None or captured.home is not captured.mode:
        return False
    if entry.library is not None or captured.is_spent or entry.shared is not None:
        return False
    if captured.effects is not None or captured.reached is not None or captured.numbers is not None:
        return False
    if isinstance(captured.tree, Broken):  # what comes behind this part may do anything
        return False
    if any(call.random for call in captured.calls):
        return False
    program = entry._program("plain")[0]
    return not getattr(program, "is_native", False) or len(captured.calls) <= _FEW_CALLS


def is_slower(run: Callable[[], Any], eager: Callable[[], Any]) -> str | None:
    """That a program takes longer than the function does, told with both times; else None."""
    ours = theirs = 0
    for turn in range(_TURNS):
        found = [_taken(one) for one in (run, eager)]
        if not turn or found[0] < ours:
            ours = found[0]
        if not turn or found[1] < theirs:
            theirs = found[1]
        if theirs > _LONG:
            break
    if ours <= theirs * _MARGIN:
        return None
    return f"the program takes {ours / 1000:.1f} us, eager {theirs / 1000:.1f}"


def _taken(run: Callable[[], Any]) -> int:
    start = time.thread_time_ns()
    run()
    return time.thread_time_ns() - start
