"""MKL for large products: whether it is to be had, and a switch. Torch's module has no switch.

Where the package `mkl` is installed (the extra of that name), large products of float32 and float64
matrices are MKL's, at sizes from which it is quicker; docs/performance.md has more.

>>> import pullback as torch
>>> with torch.backends.mkl.flags(enabled=False):
...     torch.backends.mkl.is_enabled()
False
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.installed import install_command as _install_command
from pullback.operators.arrays import mkl as _mkl

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """Whether the package `mkl` is installed, on a system where it is used: Linux."""
    return _mkl.is_available()


def is_enabled() -> bool:
    """Whether large products go there: where it can be loaded, unless somebody said no.

    The environment says no by `PULLBACK_MKL=0`.
    """
    return _mkl.is_wanted()


def set_flags(_enabled: bool) -> tuple[bool]:
    """Set the switch, of the whole process; what it was before."""
    before = _mkl.is_wanted()
    if _enabled and not _mkl.functions():
        why = "is loaded by another part of this program already, or cannot be loaded"
        if not is_available():
            why = f"is not installed (the extra pullback[mkl]): {_install_command('mkl')}"
        raise RuntimeError(f"backends.mkl: products cannot go to MKL, which {why}.")
    _mkl.setting.on = bool(_enabled)
    return (before,)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """Have the switch set so inside the block, in all threads."""
    (before,) = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(before)


class verbose:  # noqa: N801 (torch's name)
    """Would make MKL tell what it does; here it keeps quiet."""

    def __init__(self, enable: Any) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *error: object) -> None:
        pass


__all__: list[str] = [
    *("VERBOSE_OFF", "VERBOSE_ON", "flags", "is_available", "is_enabled", "set_flags", "verbose")
]
__dir__ = _only_public(globals())
