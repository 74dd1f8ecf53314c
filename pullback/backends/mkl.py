"""MKL: not there by that name; NumPy's own BLAS library does the work."""

from __future__ import annotations

from typing import Any

from pullback.core.listing import only_public as _only_public

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """Whether MKL is used: not by pullback."""
    return False


class verbose:  # noqa: N801 (torch's name)
    """Would make MKL tell what it does; it is not there."""

    def __init__(self, enable: Any) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *error: object) -> None:
        pass


__all__: list[str] = ["VERBOSE_OFF", "VERBOSE_ON", "is_available", "verbose"]
__dir__ = _only_public(globals())
