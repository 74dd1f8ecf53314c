"""Marks for NVIDIA's profilers, which are not there without a device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullback.accelerator.found import Kind
from pullback.core.listing import only_public as _only_public

__all__ = [
    *("mark", "range", "range_end", "range_pop", "range_push", "range_start"),
]

_kind = Kind("cuda.nvtx", RuntimeError)
globals().update(_kind.refusals("mark range_end range_pop range_push range_start"))


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A marked range; an error where there is no device."""
    raise _kind.missing("range()")
    yield


__dir__ = _only_public(globals())
