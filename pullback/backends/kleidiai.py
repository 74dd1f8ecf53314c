"""KleidiAI: not used here."""

from __future__ import annotations


def is_available() -> bool:
    """Whether KleidiAI is used: it is not."""
    return False
