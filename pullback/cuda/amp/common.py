"""Whether mixed precision on CUDA devices is out of question."""

from __future__ import annotations

from pullback.backends.accelerators import Kind

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Whether there is no CUDA device."""
    return not Kind("cuda").is_available()
