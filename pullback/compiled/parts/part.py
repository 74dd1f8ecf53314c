"""The rest of a function behind a break, as a compiled function."""

from __future__ import annotations

from typing import Any

from pullback.compiled.frontend import CompiledFunction
from pullback.compiled.interpreter.sources import Source
from pullback.compiled.parts.tree import LEAVES, Going, Resumed
from pullback.compiled.runtime.entry import OTHER_BRANCH
from pullback.core.mode import current, get_mode

__all__ = ["Part"]


class Part(CompiledFunction):
    """A part of another compiled function: it says where to go on, and who called it goes there."""

    def __init__(self, resumed: Resumed, whole: CompiledFunction) -> None:
        """`whole`: the function that it is a part of."""
        super().__init__(resumed, whole.backend, fullgraph=False, dynamic=whole.dynamic,
                         options=whole.options)  # fmt: skip
        self.whole = whole
        self._weighs = False
        self._seen: dict[int, set[Any]] = {}  # numbers that came, by leaf

    def _flat(self, args: Any, kwargs: Any) -> tuple[list[Any], Any]:
        return list(args), LEAVES

    def _note_outlines(self) -> None:
        """Leaves do not tell calls apart."""

    def go_on(self, going: Any) -> Any:
        """Who called goes on, so that parts do not lie one in the other."""
        return going

    def _fluid(self, args: Any) -> frozenset[Any]:
        """Numbers that a tensor gave are inputs; so are others that were seen to change."""
        found = set(super()._fluid(args))
        known = self.function.at.fluid
        for number, one in enumerate(args):
            if type(one) not in (int, float):
                continue
            seen = self._seen.setdefault(number, set())
            seen.add(one)
            if number in known or type(one) is float or len(seen) > 1:
                found.add(Source("leaf", None, number).key)
        return frozenset(found)

    def _run(self, entry: Any, leaves: list[Any], args: Any, kwargs: Any) -> Any:
        made = super()._run(entry, leaves, args, kwargs)
        if made is OTHER_BRANCH or made.__class__ is Going:
            return made  # it is not over
        home = entry.captured.home
        if get_mode() is entry.captured.mode is not home:
            current.set(home)
        return made
