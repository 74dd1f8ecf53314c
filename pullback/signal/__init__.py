"""`pullback.signal`: windows for spectra and filters."""

from __future__ import annotations

from pullback.signal import windows

__all__ = ["windows"]
