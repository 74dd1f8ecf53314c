"""Torch's surface: windows for spectra and filters."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public
from pullback.signal import windows

__all__ = ["windows"]

__dir__ = _only_public(globals())
