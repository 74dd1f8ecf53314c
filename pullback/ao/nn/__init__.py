"""`torch.ao.nn`: layers on quantised tensors, which are not here."""

from __future__ import annotations

from pullback.core.explain.absent import all_absent

__getattr__ = all_absent(__name__)
