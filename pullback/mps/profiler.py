"""Apple's profiler: needs an Apple GPU. `pullback.profiler` watches the CPU."""

from __future__ import annotations

from pullback.accelerator.found import Kind

__all__ = [
    *("is_capturing_metal", "is_metal_capture_enabled", "metal_capture", "profile", "start"),
    *("stop",),
]

globals().update(Kind("mps.profiler", RuntimeError).refusals(" ".join(__all__)))
