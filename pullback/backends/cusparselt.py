"""cuSPARSELt: not there without a device."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public

__all__ = ["get_max_alg_id", "is_available", "version"]


def is_available() -> bool:
    """Whether it is there: no."""
    return False


def version() -> int | None:
    """Its version: None."""
    return None


def get_max_alg_id() -> int | None:
    """Its number of algorithms: None."""
    return None


__dir__ = _only_public(globals())
