"""Forward mode: which perturbations are open, and the tangents that tensors carry for each.

A level keeps its tangents in a table by tensor, so closing it erases them all at once. They stand
in
one list, outermost first, and a mode says how many of these its thread sees: while the tangents of
one
are computed, only those outside of it are visible, so a perturbation never meets itself. A level
that is
open everywhere (torch's dual levels are) makes every operator leave its fast path, in all threads.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from pullback.core.mode import Mode, changed, detour, get_mode
from pullback.core.ports import ports
from pullback.core.view import View

if TYPE_CHECKING:
    from pullback.core.tensor import Tensor


class Level:
    """One perturbation, and the tangents of the tensors that feel it."""

    __slots__ = ("__weakref__", "everywhere", "saved", "tangents")

    def __init__(self, *, everywhere: bool) -> None:
        self.everywhere = everywhere
        self.tangents: dict[int, tuple[weakref.ref[Any], Any]] = {}
        # node -> {name of a saved output: its tangent}
        self.saved: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()

    def get(self, tensor: Tensor) -> Any:
        """The tangent of `tensor`, or None; of a view, the same view of its base's."""
        entry = self.tangents.get(id(tensor))
        if entry is not None and entry[0]() is tensor:
            return entry[1]
        info = tensor._node
        if info.__class__ is not View or not info.forward:
            return None
        above = self.get(info.base)
        if above is None:
            return None
        tangent = ports.view_of(tensor, above)
        self.put(tensor, tangent)
        return tangent

    def put(self, tensor: Tensor, tangent: Any) -> None:
        """Set the tangent of `tensor`; None takes it away."""
        key = id(tensor)
        if tangent is None:
            self.tangents.pop(key, None)
            return
        table = self.tangents
        self.tangents[key] = (weakref.ref(tensor, lambda _: table.pop(key, None)), tangent)

    def close(self) -> None:
        """Erase every tangent."""
        self.tangents.clear()
        self.saved.clear()


# Open levels, outermost first; and those of them that all threads see.
LEVELS: list[Level] = []
_everywhere: list[Level] = []
_changing = threading.Lock()


def open_level() -> Level:
    """Begin a perturbation that all threads see."""
    level = Level(everywhere=True)
    with _changing:
        LEVELS.append(level)
        _everywhere.append(level)
        detour(+1)
    return level


def open_inside(mode: Mode) -> tuple[Level, Mode]:
    """Begin a perturbation that only the returned mode sees, within those that `mode` sees."""
    level = Level(everywhere=False)
    with _changing:
        depth = len(_seen_in(mode))
        LEVELS.insert(depth, level)
    return level, changed(mode, forward_ad=True, dual_depth=depth + 1)


def close_level(level: Level) -> None:
    """End a perturbation and erase its tangents."""
    with _changing:
        LEVELS.remove(level)
        if level.everywhere:
            _everywhere.remove(level)
            detour(-1)
    level.close()


def _seen_in(mode: Mode) -> list[Level]:
    if mode.dual_depth is not None:
        return LEVELS[: mode.dual_depth]
    return [level for level in LEVELS if level.everywhere]


def visible_levels() -> list[Level]:
    """The levels whose tangents operators propagate now, in this thread."""
    mode = get_mode()
    if not LEVELS or not mode.forward_ad:
        return []
    return _seen_in(mode)


def seeing(depth: int) -> int | None:
    """The `dual_depth` at which only the first `depth` levels are seen."""
    return None if depth == 0 and not _everywhere else depth
