"""`torch.package`: code and weights in one archive, which is not here."""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others
from pullback.core.listing import only_public as _only_public

refuse_others(globals())

__all__: list[str] = []
__dir__ = _only_public(globals())
