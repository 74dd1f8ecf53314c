"""`torch.ao.nn.quantized`: the one layer that works in floating point."""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.nn.quantized import FloatFunctional

__all__ = ["FloatFunctional"]

refuse_others(globals())
__dir__ = _only_public(globals())
