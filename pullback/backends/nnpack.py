"""Switches of NNPACK: kept; NumPy does the work."""

from __future__ import annotations

from typing import Any

from pullback.backends.switches import flags_of
from pullback.core.listing import only_public as _only_public

__all__ = ["flags", "is_available", "set_flags"]

enabled = True
flags = flags_of(globals(), enabled=False)


def is_available() -> bool:
    """Whether NNPACK is there: it is not."""
    return False


def set_flags(_enabled: bool) -> tuple[Any, ...]:
    """Set the switch; what it was before."""
    global enabled
    before, enabled = enabled, bool(_enabled)
    return (before,)


__dir__ = _only_public(globals())
