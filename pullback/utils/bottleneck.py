"""`torch.utils.bottleneck`, which torch has dropped too."""

from __future__ import annotations

from pullback.core.process.refused import refused

__getattr__ = refused(
    __name__,
    "torch has dropped it",
    "Use torch.profiler.",
)
