"""Anomaly mode: nodes keep the stack that made them.

Process-wide, so it takes operators off their fast path while it is on.
"""

from __future__ import annotations

from typing import Any

from pullback.core.mode import detour
from pullback.core.origin import getframe, user_frame
from pullback.core.passes import evaluating


class _State:
    """Whether the mode is on, and whether the engine looks for NaN."""

    __slots__ = ("check_nan", "enabled")

    def __init__(self) -> None:
        self.enabled = False
        self.check_nan = True


state = _State()


def switch(*, enabled: bool, check_nan: bool) -> None:
    """Turn anomaly mode on or off."""
    state.enabled = enabled
    state.check_nan = check_nan
    detour("anomaly", needed=enabled)


def remember(node: Any) -> None:
    """Keep the stack at a node's creation, and the node that was running then."""
    import traceback  # only here, and slow to load

    node.metadata["traceback_"] = traceback.format_stack(user_frame(getframe(1)))
    parent = evaluating.get()
    if parent is not None:
        node.metadata["parent_"] = parent
