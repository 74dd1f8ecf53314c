"""Tables of names are written as text, a word after the other."""

from __future__ import annotations

__all__ = ["words"]


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())
