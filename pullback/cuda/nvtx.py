"""Marks for NVIDIA's profilers; without a device there is nobody to see them, and an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullback.backends.accelerators import Kind
from pullback.core.device import holder_of
from pullback.core.listing import only_public as _only_public
from pullback.operators.cuda.found import found

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_kind = Kind("cuda.nvtx", RuntimeError)
range_end, range_start = _kind.refusing("range_end"), _kind.refusing("range_start")


def _nvtx(what: str) -> Any:
    if holder_of("cuda") is None:
        raise _kind.missing(what)
    return found.cupy.cuda.nvtx


def mark(msg: str) -> None:
    """A mark in time."""
    _nvtx("mark()").Mark(msg)


def range_push(msg: str) -> None:
    """Begin a range."""
    _nvtx("range_push()").RangePush(msg)


def range_pop() -> None:
    """End the range that was begun last."""
    _nvtx("range_pop()").RangePop()


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A marked range; an error where there is no device."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


__dir__ = _only_public(globals())
