"""`torch.ao.quantization`: the marks that models carry; quantising itself is not here."""

from __future__ import annotations

from pullback.core.explain.absent import all_refusing
from pullback.core.listing import only_public as _only_public
from pullback.nn.quantized import DeQuantStub, QuantStub

__all__ = ["DeQuantStub", "QuantStub"]

# Libraries ask whether a module is one of these.
_REFUSED = (
    "FakeQuantize",
    "FakeQuantizeBase",
    "HistogramObserver",
    "MinMaxObserver",
    "ObserverBase",
)

__getattr__ = all_refusing(__name__, _REFUSED)
__dir__ = _only_public(globals())
