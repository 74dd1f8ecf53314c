"""Apple GPUs as a backend: not there."""

from __future__ import annotations

from pullback.backends.accelerators import Kind
from pullback.core.listing import only_public as _only_public

__all__ = [*("get_core_count", "get_name", "is_available", "is_built", "is_macos13_or_newer")]

_kind = Kind("backends.mps", RuntimeError)
globals().update(_kind.refusals("get_core_count get_name is_macos13_or_newer is_macos_or_newer"))


def is_available() -> bool:
    """Whether there is an Apple GPU to use.

    >>> import pullback as torch
    >>> torch.backends.mps.is_available(), torch.backends.mps.is_built()
    (False, False)
    """
    return False


def is_built() -> bool:
    """Whether one could be used: no."""
    return False


__dir__ = _only_public(globals(), "is_macos_or_newer")
