"""OpenMP: not used here."""

from __future__ import annotations


def is_available() -> bool:
    """Whether OpenMP is used: it is not."""
    return False
