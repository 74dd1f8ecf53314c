"""Which graph is being compiled, for compilers that ask: number of the call, part, count."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["compiling", "get_aot_compilation_context", "get_aot_graph_name", "next_call"]

_calls, _graphs = itertools.count(), itertools.count(1)
_current: ContextVar[tuple[list[str], str, int]] = ContextVar("compiling", default=([], "model", 0))


def next_call() -> int:
    """The number of a call that is made into graphs."""
    return next(_calls)


@contextmanager
def compiling(call: int, part: str) -> Iterator[None]:
    """Inside, the part of that call (forward, backward, inference) is being compiled."""
    before = _current.get()
    try:
        _current.set(([f"{call}_{part}"], "model", next(_graphs)))
        yield
    finally:
        _current.set(before)


def get_aot_compilation_context() -> tuple[list[str], str, int]:
    """Which parts are being compiled, the name of the model, and how many graphs there were."""
    return _current.get()


def get_aot_graph_name() -> str:
    """A name for the graph that is being compiled, another for each; for files and tables."""
    parts, model, count = _current.get()
    return f"{model}__{'_'.join(parts)}_{count}"
