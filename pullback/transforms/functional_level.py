"""The level of functionalize: what watches the operators sees no writes, and no views if asked.

A write becomes the call that computes its result, and a store that nobody is shown. A view is made
unseen, and a copy of it is shown. Memory is shared as always, so the function means the same.

A mode that writes operators down is told what it did not see: `stands_for(tensor, other)`, one has
the values of the other, and `stored(target, result)`, these go to that memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.mode import Mode, changed, current, get_mode
from pullback.core.tensor import Tensor
from pullback.operators.declare import Op
from pullback.operators.shape.reshaping import clone
from pullback.transforms.vmap_level import next_number

__all__ = ["FunctionalLevel", "tell"]


def tell(what: str, tensor: Tensor, other: Tensor) -> None:
    """Let the modes that take operators know of what is hidden from them, if they want to."""
    for mode in get_mode().dispatch:
        hear = getattr(mode, what, None)
        if hear is not None:
            hear(tensor, other)


class FunctionalLevel:
    """One running functionalize."""

    __slots__ = ("keeps_views", "number", "open")

    transform = "functionalize"
    for_tangents = True  # batches no value of a derivative inside
    size = 1

    def __init__(self, *, keeps_views: bool) -> None:
        self.keeps_views = keeps_views
        self.number = next_number()
        self.open = True

    def below(self, mode: Mode) -> Mode:
        """The mode in which operator calls go to the levels outside of this one."""
        return changed(mode, levels=mode.levels[: mode.levels.index(self)])

    def process(self, op: Op, bound: dict[str, Any]) -> Any:
        """Run an operator, a view unseen if views are to go."""
        if op.kind != "view" or self.keeps_views:
            return self._run(lambda: op.function(**bound), shown=True)
        base = bound[op.inputs[0].name]
        if isinstance(base, Tensor):
            tell("stands_for", base, base)  # who has not met it should, before a part of it
        view = self._run(lambda: op.function(**bound), shown=False)
        for one in view if isinstance(view, tuple | list) else (view,):
            copied = self._run(lambda one=one: clone(one), shown=True)  # type: ignore[misc]  # the default binds the loop variable
            tell("stands_for", one, copied)
        return view

    def process_inplace(self, op: Op, called: str, target: Tensor, bound: dict[str, Any]) -> Tensor:
        """Compute what is to be written, and store it unseen."""
        result = self._run(lambda: op.function(**bound), shown=True)
        tell("stored", target, result)  # before: what it keeps of this memory, it can still copy
        self._run(lambda: target.copy_(result), shown=False)
        return target

    def random(self, op: str, draw: Callable[[], Any], many: Any = None) -> Any:
        """Random numbers are drawn as ever."""
        return self._run(draw, shown=True)

    def random_like(self, op: str, like: Any, draw: Callable[[Any], Any]) -> Any:
        """The same, like a tensor."""
        return self._run(lambda: draw(like), shown=True)

    def refuse_function(self, cls: Any) -> None:
        """Custom Functions may write in ways that cannot be told apart from outside."""
        raise RuntimeError(
            f"functionalize: {cls.__name__} is a custom Function, whose writes and views cannot "
            "be replaced. Call functionalize inside of its forward, or leave the Function out."
        )

    def _run(self, call: Callable[[], Any], *, shown: bool) -> Any:
        before = get_mode()
        below = self.below(before)
        try:
            current.set(below if shown else changed(below, dispatch=()))
            return call()
        finally:
            current.set(before)
