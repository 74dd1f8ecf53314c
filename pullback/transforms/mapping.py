"""Running a function on a batch: opening a vmap level, and what goes in and out of it.

The public `vmap` (func/vmap.py) checks and names things; this is also what jacrev, jacfwd and
batched gradients map with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.mode import current, settle, with_level
from pullback.core.overriding import FUNCTIONS, unasked
from pullback.core.process.whole import Whole
from pullback.core.tensor import Tensor
from pullback.transforms.batched import Batched, batched, is_batched_at
from pullback.transforms.vmap_level import VmapLevel


class mapped(Whole):  # noqa: N801 (a context)
    """A vmap level, open inside."""

    __slots__ = ("before", "level")

    def __init__(self, size: int, randomness: str = "error", *, for_tangents: bool = False) -> None:
        self.level = VmapLevel(size, randomness, for_tangents=for_tangents)

        self.before = settle()

    def _enter(self) -> VmapLevel:
        current.set(with_level(self.before, self.level))
        return self.level

    def _leave(self) -> None:
        current.set(self.before)
        self.level.close()


def entered(value: Any, dim: int | None, level: VmapLevel) -> Any:
    """One example of `value`, mapped along `dim`; None: all examples share it."""
    if dim is None:
        return value
    # A batch is no tensor of the user's class, and neither is what is made of it.
    plain = not value._overrides & FUNCTIONS
    return batched(value if plain else unasked(value.as_subclass, Tensor), dim, level)


def taken_out(result: Tensor, level: VmapLevel, dim: int = 0) -> Any:
    """All examples of a result, along dimension `dim`; for use after the level has closed."""
    if result.__class__ is Batched and result.level is level:
        value, bdim = result.value, result.bdim
    else:
        value, bdim = result.unsqueeze(0).expand((level.size, *result.shape)), 0
    return value if bdim == dim else value.movedim(bdim, dim)


def over_batch(
    function: Callable[..., list[Any]],
    values: Sequence[Any],
    size: int,
    *,
    for_tangents: bool = False,
    randomness: str = "same",
) -> list[Any]:
    """Call `function` once with one example of each value; its results, examples in front."""
    with mapped(size, randomness, for_tangents=for_tangents) as level:
        results = function(*(batched(value, 0, level) for value in values))
    return [None if r is None else taken_out(r, level) for r in results]


__all__ = ["entered", "is_batched_at", "mapped", "over_batch", "taken_out"]
