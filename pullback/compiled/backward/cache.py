"""The programs of backward passes that are kept: those used last, and no more than a limit.

Where captures go on and on and none of them is used again, the graphs of the program are others
each time, or a number in them is (a weight of the loss that grows with each step: 37 times the
engine's time on the back end python, 360 on llvm, 8 by 8 elements). Passes that were not met before
then run on the engine, at the cost of a walk in place of a capture; what is kept still serves those
that it was made for.
"""

from __future__ import annotations

import logging
import sys
from collections import OrderedDict
from itertools import count
from typing import Any, NoReturn

from pullback.compiled.backward.graph import Unsupported
from pullback.compiled.backward.reasons import compile_reasons
from pullback.compiled.backward.sizes import skeleton
from pullback.compiled.counting import counters

__all__ = ["Full", "Kept", "cache", "limit"]

log = logging.getLogger("pullback.compile")
_USUAL_LIMIT = 64
_MOST_TRAILS = 8  # for each class of roots
_MOST_ALIKE = 8  # captures that differ in numbers alone and were not met again


class Full(Unsupported):
    """A pass is not captured since too many were for nothing; that is told once, and no error."""


def limit() -> int:
    """How many programs are kept: `_dynamo.config.compiled_autograd_cache_limit`."""
    config = sys.modules.get("pullback._dynamo.config")
    return _USUAL_LIMIT if config is None else int(config.compiled_autograd_cache_limit)


class Kept:
    """A program, or why there is none."""

    __slots__ = ("known", "last_use", "sort", "uses")

    def __init__(self, known: Any, last_use: int, sort: int | None) -> None:
        """`sort`: what it has in common with passes that differ in numbers alone, if captured."""
        self.known, self.last_use, self.sort = known, last_use, sort
        self.uses = 0


class _Cache:
    """Programs by back end and key, and the trails that lead to them."""

    def __init__(self) -> None:
        self._kept: dict[Any, Kept] = {}
        self.trails: dict[Any, list[tuple[Any, Kept]]] = {}  # by back end and class of a root
        self._clock = count()
        self._wasted = 0  # captures in a row that were forgotten without having been used again
        self._is_told = False

    def __len__(self) -> int:
        return len(self._kept)

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
        self.trails.clear()
        self._wasted, self._is_told = 0, False

    def last_key(self) -> Any:
        """The key of the pass that was kept last, None without any."""
        return next(reversed(self._kept))[1] if self._kept else None

    def find(self, backend: Any, key: Any) -> Kept | None:
        """What is kept for a pass; not yet a use of it."""
        return self._kept.get((backend, key))

    def use(self, kept: Kept) -> Any:
        """The program, which counts as used."""
        counters["compiled_autograd"]["hits"] += 1
        kept.uses += 1
        kept.last_use = next(self._clock)
        return kept.known

    def keep(self, backend: Any, key: Any, known: Any, *, is_captured: bool) -> Kept:
        """Keep a program; `is_captured` if it was not derived from another one."""
        self._kept.pop((backend, key), None)
        sort = hash((backend, skeleton(key))) if is_captured else None
        kept = Kept(known, next(self._clock), sort)
        self._kept[backend, key] = kept
        while len(self._kept) > max(limit(), 1):
            self._forget()
        return kept

    def lead(self, backend: Any, root: Any, trail: Any, kept: Kept) -> None:
        """Remember the trail of a graph for the next one of its sort."""
        listed = self.trails.setdefault((backend, root.__class__), [])
        listed.insert(0, (trail, kept))
        del listed[_MOST_TRAILS:]

    def check_room(self, backend: Any, key: Any) -> None:
        """Refuse to capture another pass where that was for nothing too often."""
        most = limit()
        if self._wasted >= most and len(self._kept) >= most:
            self._give_up(
                "more passes that differ than compiled_autograd_cache_limit keeps",
                f"{self._wasted} more than the {most} that it keeps",
            )
        sort = hash((backend, skeleton(key)))
        unused = [one for one in list(self._kept.values()) if one.sort == sort and not one.uses]
        if len(unused) >= _MOST_ALIKE:
            self._give_up(
                "a number in it is another each time",
                f"{len(unused)} that differ in numbers alone",
            )

    def _give_up(self, reason: str, which: str) -> NoReturn:
        if not self._is_told:
            self._is_told = True
            log.warning(
                "compiled_autograd captured backward passes, %s, and met none of them again: "
                "others like them run on the engine. reset() begins anew, "
                "_dynamo.config.compiled_autograd_cache_limit is how many are kept. The last "
                "reasons to make one: %s", which, compile_reasons[-3:],
            )  # fmt: skip
        raise Full(reason)

    def _forget(self) -> None:
        """Let go of the program whose last use is longest ago."""
        place, kept = min(list(self._kept.items()), key=lambda one: one[1].last_use)
        self._kept.pop(place, None)
        if kept.uses:
            self._wasted = 0
        elif kept.sort is not None:
            self._wasted += 1
        for listed in list(self.trails.values()):
            listed[:] = [one for one in listed if one[1] is not kept]


cache = _Cache()


def bounded(table: OrderedDict[Any, Any], place: Any, value: Any) -> Any:
    """The entry of a table at a place, `value` where there was none; the least used ones go."""
    found = table.setdefault(place, value)
    table.move_to_end(place)
    while len(table) > max(limit(), 1):
        table.popitem(last=False)
    return found
