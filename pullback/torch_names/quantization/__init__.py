"""`torch.quantization`, the old name of `torch.ao.quantization`."""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.nn.quantized import DeQuantStub, QuantStub

__all__ = ["DeQuantStub", "QuantStub"]

refuse_others(globals())
__dir__ = _only_public(globals())
