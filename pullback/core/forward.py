"""Forward mode: which perturbations are open, and the tangents that tensors carry for each.

A level keeps its tangents in a table by tensor, so closing it erases them all at once. The levels
of function transforms belong to the context (the thread) that opened them, outermost first, and a
mode says how many of these it sees: while the tangents of one are computed, only those outside of
it are visible, so a perturbation never meets itself. A level that is open everywhere (torch's dual
levels are) makes every operator leave its fast path, in all threads.
"""

from __future__ import annotations

import threading
import weakref
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any

from pullback.core.mode import Mode, detour, get_mode, with_perturbation
from pullback.core.ports import ports
from pullback.core.view import View

if TYPE_CHECKING:
    from pullback.core.tensor import Tensor


class Level:
    """One perturbation, and the tangents of the tensors that feel it."""

    __slots__ = ("__weakref__", "everywhere", "saved", "tangents", "tracked")

    # What makes the tangents of an operator's results in place of `derive.jvp`, with its arguments:
    # of levels whose tangents are more than a first derivative (transforms/series.py).
    rule: Any = None

    def __init__(self, *, everywhere: bool) -> None:
        self.everywhere = everywhere
        # Whether a tangent came in with a history: someone outside differentiates by the direction.
        self.tracked = False
        self.tangents: dict[int, tuple[weakref.ref[Any], Any]] = {}
        # node -> {name of a saved output: its tangent}; None until there is one
        self.saved: weakref.WeakKeyDictionary[Any, dict[str, Any]] | None = None

    def get(self, tensor: Tensor) -> Any:
        """The tangent of `tensor`, or None; of a view, the same view of its base's."""
        entry = self.tangents.get(id(tensor))
        if entry is not None and entry[0]() is tensor:
            return entry[1]
        info = tensor._node
        if info.__class__ is not View or not info.manner.forward:
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
        # Called with the reference, which is then the default of `pop`: no function of ours runs.
        self.tangents[key] = (weakref.ref(tensor, partial(self.tangents.pop, key)), tangent)

    def replace(self, base: Tensor, tangent: Any) -> None:
        """Another tangent for a base; its views' are made anew when they are next asked for."""
        for reference, _ in list(self.tangents.values()):
            one = reference()
            if one is None:
                continue
            info = one._node
            if info.__class__ is View and info.base is base and info.manner.forward:
                self.put(one, None)
        self.put(base, tangent)

    def keep(self, node: Any, name: str, tangent: Any) -> None:
        """Remember the tangent of an output that a node has saved."""
        if self.saved is None:
            self.saved = weakref.WeakKeyDictionary()
        self.saved.setdefault(node, {})[name] = tangent

    def kept(self, node: Any, name: str) -> Any:
        """What `keep` was given, or None."""
        return None if self.saved is None else self.saved.get(node, {}).get(name)

    def close(self) -> None:
        """Erase every tangent."""
        self.tangents.clear()
        self.saved = None


# Every open level of every thread, in no order: empty, and only then, nobody need look further.
LEVELS: list[Level] = []
# Those that all threads see; replaced, never changed.
_everywhere: tuple[Level, ...] = ()
_changing = threading.RLock()
# What this context has open: its own levels and, outside of them, those it saw everywhere.
_inside: ContextVar[tuple[Level, ...] | None] = ContextVar("pullback_duals", default=None)


def open_levels() -> tuple[Level, ...]:
    """The levels at which tensors of this context may have tangents, outermost first."""
    inside = _inside.get()
    return _everywhere if inside is None else inside


def open_level(level: Level) -> None:
    """Let all threads see a perturbation."""
    global _everywhere
    with _changing:
        LEVELS.append(level)
        _everywhere = (*_everywhere, level)
        detour(level, needed=True)


def close_level(level: Level) -> None:
    """End a perturbation, as far as it was opened, and erase its tangents."""
    global _everywhere
    with _changing:
        _everywhere = tuple(one for one in _everywhere if one is not level)
        detour(level, needed=False)
        if level in LEVELS:
            LEVELS.remove(level)
    level.close()


class Inside:
    """A perturbation that only this context sees, within those that a mode sees."""

    __slots__ = ("_before", "level", "mode", "seen")

    def __init__(self, mode: Mode, level: Level | None = None) -> None:
        """The level, and the mode that will see it; nothing is open yet."""
        outer = _everywhere if mode.dual_depth is None else open_levels()[: mode.dual_depth]
        self.level = Level(everywhere=False) if level is None else level
        self.seen = (*outer, self.level)
        self.mode = with_perturbation(mode, self.seen)
        self._before = _inside.get()

    def open(self) -> None:
        """Begin it."""
        LEVELS.append(self.level)
        _inside.set(self.seen)

    def close(self) -> None:
        """End it, as far as it was opened, and erase its tangents."""
        _inside.set(self._before)
        if self.level in LEVELS:
            LEVELS.remove(self.level)
        self.level.close()


def _seen_in(mode: Mode) -> tuple[Level, ...]:
    return _everywhere if mode.dual_depth is None else open_levels()[: mode.dual_depth]


def visible_levels() -> tuple[Level, ...]:
    """The levels whose tangents operators propagate now, in this thread."""
    mode = get_mode()
    return _seen_in(mode) if LEVELS and mode.forward_ad else ()


def seeing(depth: int) -> int | None:
    """The `dual_depth` at which only the first `depth` levels are seen."""
    return None if depth == 0 and not _everywhere else depth
