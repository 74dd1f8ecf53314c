"""Which derivatives this thread is taking: the function transforms that run, innermost last.

Apart from the mode, since operators need not know: inside `func.grad` they run their fast path.
Only what acts on one derivative of several (`detach`) or is refused inside them asks here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, NamedTuple

from pullback.core.mode import get_mode


class Derivative(NamedTuple):
    """One running `grad`, `vjp` or `jvp`."""

    transform: str  # as the user called it
    depth: int  # 1 for the outermost
    level: Any = None  # of forward mode: where its tangents are
    scope: Any = None  # of the function that runs, see captured.py
    inputs: Any = ()  # what the function is differentiated with respect to, as it sees them
    levels: tuple[Any, ...] = ()  # the vmap levels around it


running: ContextVar[tuple[Derivative, ...]] = ContextVar("pullback_derivatives", default=())

# The depth of the derivative whose backward pass runs; 0 for one that the user started outside.
pass_depth: ContextVar[int] = ContextVar("pullback_pass_depth", default=0)


def of_this_derivative(hook: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A tensor's hook, called by the passes of the innermost reverse derivative and no others."""
    depth = max((one.depth for one in running.get() if one.level is None), default=0)

    def in_its_passes(g: Any) -> Any:
        return hook(g) if pass_depth.get() == depth else None

    return in_its_passes if depth else hook


def inside_transform() -> str | None:
    """The name of the innermost function transform, or None outside of them all."""
    derivatives = running.get()
    if derivatives:
        return derivatives[-1].transform
    levels = get_mode().levels
    return str(levels[-1].transform) if levels else None


def refuse_inside(what: str, instead: str) -> None:
    """Raise where a function transform runs: it keeps the books of its own derivatives."""
    if transform := inside_transform():
        raise RuntimeError(
            f"{what} cannot be used inside {transform}: the transform takes the derivatives "
            "itself. "
            f"{instead}"
        )
