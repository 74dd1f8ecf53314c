"""Functions that torch's Python layer calls under a private name; `unique_dim` is only here."""

from __future__ import annotations

from typing import Any

import pullback
from pullback.operators.reduce.unique import unique_dim

__all__ = ["unique_dim"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'pullback._VF' has no attribute {name!r}")
    return getattr(pullback, name)
