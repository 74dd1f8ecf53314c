"""NVIDIA's profiler: starting it needs a device. `pullback.profiler` watches the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pullback.backends.accelerators import Kind
from pullback.core.device import holder_of
from pullback.core.listing import only_public as _only_public
from pullback.operators.cuda.found import found

__all__ = ["profile", "start", "stop"]

_kind = Kind("cuda.profiler")


def start() -> None:
    """Let the profiler look from here on."""
    if holder_of("cuda") is None:
        raise _kind.missing("start()")
    found.cupy.cuda.runtime.profilerStart()


def stop() -> None:
    """Let it look no more."""
    if holder_of("cuda") is None:
        raise _kind.missing("stop()")
    found.cupy.cuda.runtime.profilerStop()


@contextmanager
def profile() -> Iterator[None]:
    """Profile within a block; an error where there is no device."""
    start()
    try:
        yield
    finally:
        stop()


__dir__ = _only_public(globals())
