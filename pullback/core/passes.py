"""Which backward pass runs in this thread, and which of its nodes.

Here, at the bottom, because tensors and saved values ask too: reading `.grad` in the middle of a
pass must show what has arrived by then, and an unpack hook may ask for the node it serves.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pullback.core.node import Node

# The innermost pass; None outside. Worker threads inherit it with the context.
running: ContextVar[Any] = ContextVar("pullback_running_pass", default=None)

# The node whose backward or hooks run now: parent of the nodes made meanwhile.
evaluating: ContextVar[Node | None] = ContextVar("pullback_evaluating", default=None)

# Called when an outermost backward() has written its `.grad`s, before it returns.
at_end: list[Callable[[], None]] = []


# What runs passes in place of the engine (compiled/backward); None: the engine does.
taken_over: ContextVar[Any] = ContextVar("pullback_passes_taken_over", default=None)


def serve_leaves() -> None:
    """Store the gradients that are complete by now: somebody looks at a leaf's `.grad`."""
    innermost = running.get()
    if innermost is not None:
        innermost.serve_leaves(evaluating.get())
