"""Calls with tensors of another kind (sparse ones), which have a table of operators of their own.

Such tensors leave an operator's fast path by themselves; the interpreter asks here, and only
once a kind is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.operators.declare import Op

__all__ = ["HANDLERS", "taken"]

# A handler is given the operator, the name it was called by, its arguments and `out`.
HANDLERS: list[Callable[[Op, str, dict[str, Any], Any], tuple[bool, Any]]] = []


def taken(op: Op, called: str, bound: dict[str, Any], out: Any = None) -> tuple[bool, Any]:
    """Whether some kind answers a call, and its answer."""
    for handler in HANDLERS:
        yes, answer = handler(op, called, bound, out)
        if yes:
            return True, answer
    return False, None
