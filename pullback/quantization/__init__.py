"""`torch.quantization`, the old name of `torch.ao.quantization`; neither is here."""

from __future__ import annotations

from pullback.core.explain.absent import all_absent

__getattr__ = all_absent(__name__)
