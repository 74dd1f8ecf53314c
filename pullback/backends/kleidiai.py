"""KleidiAI: not used here."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public


def is_available() -> bool:
    """Whether KleidiAI is used: it is not."""
    return False


__all__: list[str] = ["is_available"]
__dir__ = _only_public(globals())
