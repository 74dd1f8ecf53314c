"""Streams, files and checks of the data pipes."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public

__all__: list[str] = []

__dir__ = _only_public(globals(), "common")
