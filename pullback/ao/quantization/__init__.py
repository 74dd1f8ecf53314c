"""`torch.ao.quantization`: the marks that models carry; quantising itself is not here."""

from __future__ import annotations

from pullback.core.explain.absent import all_absent
from pullback.core.listing import only_public as _only_public
from pullback.nn.quantized import DeQuantStub, QuantStub

__all__ = ["DeQuantStub", "QuantStub"]

__getattr__ = all_absent(__name__)
__dir__ = _only_public(globals())
