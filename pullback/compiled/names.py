"""What `torch.compiler` offers about compiled functions: questions, marks, and a clean slate."""

from __future__ import annotations

import functools
from typing import Any

from pullback.compiled.backends import list_backends, register_backend
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.counting import counters
from pullback.compiled.explain import explain
from pullback.compiled.frontend import known_functions
from pullback.compiled.stance import STANCES, stance
from pullback.core.mode import get_mode

__all__ = ["disable", "explain", "is_compiling", "list_backends", "register_backend", "reset"]


def is_compiling() -> bool:
    """Whether the calling code is being captured.

    >>> import pullback as torch
    >>> from pullback.compiled.names import is_compiling
    >>> is_compiling()
    False
    """
    return get_mode().tracing is not None


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Mark a function as never to be captured: compiled calls that reach it run eagerly.

    >>> from pullback.compiled.names import disable
    >>> @disable
    ... def f(x):
    ...     return x
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)

    @functools.wraps(fn)
    def run(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            why = f": {reason}" if reason else ""
            raise CannotCapture(f"{getattr(fn, '__name__', fn)} is marked by disable(){why}")
        return fn(*args, **kwargs)

    return run


def take_stance(name: str) -> str:
    """Let compiled functions compile as a stance says; the stance before."""
    if name not in STANCES:
        raise RuntimeError(f"There is no stance {name!r}; the stances are {STANCES}.")
    before, stance.now = stance.now, name
    for function in list(known_functions):
        function.forget_quick()  # which asks for no stance
    return before


def reset() -> None:
    """Forget all programs, reasons and counts."""
    for function in list(known_functions):
        function.clear()
    counters.clear()
