"""Where torch keeps the switches of its dispatcher."""

from __future__ import annotations

from . import python

__all__ = ["python"]
