"""`torch.ao.nn.quantized`: the one layer that works in floating point."""

from __future__ import annotations

from pullback.core.explain.absent import all_absent
from pullback.core.listing import only_public as _only_public
from pullback.nn.quantized import FloatFunctional

__all__ = ["FloatFunctional"]

__getattr__ = all_absent(__name__)
__dir__ = _only_public(globals())
