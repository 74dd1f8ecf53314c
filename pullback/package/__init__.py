"""`torch.package`: code and weights in one archive, which is not here."""

from __future__ import annotations

from pullback.core.explain.absent import all_absent

__getattr__ = all_absent(__name__)
