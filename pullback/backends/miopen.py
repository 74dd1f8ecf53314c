"""Switches of MIOpen: kept, and without effect where there is no device."""

from __future__ import annotations

from pullback.backends.switches import flags_of

immediate = False
flags = flags_of(globals(), immediate=False)
