"""`torch.utils.throughput_benchmark`: runs compiled modules in C++ threads; not here."""

from __future__ import annotations

from pullback.core.process.refused import refused

__getattr__ = refused(
    __name__,
    "there are no C++ threads to run a module in",
    "Use torch.utils.benchmark.Timer.",
)
