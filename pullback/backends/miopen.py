"""Switches of MIOpen: kept, and without effect where there is no device."""

from __future__ import annotations

from pullback.backends.switches import flags_of
from pullback.core.listing import only_public as _only_public

immediate = False
flags = flags_of(globals(), immediate=False)

__all__: list[str] = ["flags", "immediate"]
__dir__ = _only_public(globals())
