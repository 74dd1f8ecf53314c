"""NVIDIA's profiler: starting it needs a device. `pullback.profiler` watches the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pullback.accelerator.found import Kind
from pullback.core.listing import only_public as _only_public

__all__ = [
    *("profile", "start", "stop"),
]

_kind = Kind("cuda.profiler")
globals().update(_kind.refusals("start stop"))


@contextmanager
def profile() -> Iterator[None]:
    """Profile within a block; an error where there is no device."""
    raise _kind.missing("profile()")
    yield


__dir__ = _only_public(globals())
