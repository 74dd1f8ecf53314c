"""Why each program of a backward pass was made, and what the engine had to run between them."""

from __future__ import annotations

__all__ = ["compile_reasons", "note"]

_MOST = 64
compile_reasons: list[str] = []  # the last ones


def note(reason: str) -> None:
    """Remember a reason."""
    compile_reasons.append(reason)
    del compile_reasons[:-_MOST]
