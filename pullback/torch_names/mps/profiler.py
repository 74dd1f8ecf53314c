"""Apple's profiler: needs an Apple GPU. `pullback.profiler` watches the CPU."""

from __future__ import annotations

from pullback.backends.accelerators import Kind
from pullback.core.listing import only_public as _only_public

__all__ = [
    *("is_capturing_metal", "is_metal_capture_enabled", "metal_capture", "profile", "start"),
    *("stop",),
]

globals().update(Kind("mps.profiler", RuntimeError).refusals(" ".join(__all__)))

__dir__ = _only_public(globals())
