"""Steps of compiled programs by name, and their times for a profiler that is on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns as now
from typing import Any

from pullback.autograd.profile import recorder as recording
from pullback.operators.dispatch.observers import observers

__all__ = ["is_profiled", "step_names", "timed"]

_MOST_WORDS = 6


def is_profiled() -> bool:
    """Whether whoever looks at operators is a profiler, which will do with steps of programs."""
    return observers.active in recording.active()


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Tell the profilers how long a block took."""
    start = now()
    try:
        yield
    finally:
        end = now()
        for one in recording.active():
            one.step(name, start, end)


def step_names(plan: Any) -> list[str]:
    """A name for each step: what it joins, and over which sizes."""
    return [f"compiled::{_step_name(plan, step)}" for step in plan.steps]


def _step_name(plan: Any, step: Any) -> str:
    if hasattr(step, "domain"):
        words = [v.op for v in step.nodes]
        shown = words if len(words) <= _MOST_WORDS else [*words[: _MOST_WORDS - 1], "..."]
        return f"loop({', '.join(shown)}) over {list(step.domain)}"
    v = step.value
    if v.op == "call":
        return f"kernel {plan.builder.calls[v.attr].name}"
    if hasattr(step, "product"):
        return f"product added to {list(v.shape)}"
    return f"{'product' if v.op == 'dot' else v.op} {list(v.shape)}"
