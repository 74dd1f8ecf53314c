"""The fast path of attention modules: a switch that is kept."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public

_enabled = True


def get_fastpath_enabled() -> bool:
    """Whether attention modules may take a faster way."""
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Allow or forbid it."""
    global _enabled
    _enabled = bool(value)


__all__: list[str] = ["get_fastpath_enabled", "set_fastpath_enabled"]
__dir__ = _only_public(globals())
