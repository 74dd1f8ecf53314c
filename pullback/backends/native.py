"""Machine code for eager kernels: whether it is to be had, and a switch. Torch has no such module.

Where llvmlite is installed (the extra `compile`), products, norms, softmax, attention, LSTM layers
and Adam steps of large tensors are kernels made for their sizes; docs/performance.md has more.

>>> import pullback as torch
>>> with torch.backends.native.flags(enabled=False):
...     torch.backends.native.is_enabled()
False
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pullback.core.listing import only_public as _only_public
from pullback.operators.arrays import native as _native

__all__ = ["flags", "is_available", "is_enabled", "set_flags"]


def is_available() -> bool:
    """Whether llvmlite is installed."""
    return _native.is_available()


def is_enabled() -> bool:
    """Whether large tensors are computed so: where it is there, unless somebody said no.

    The environment says no by `PULLBACK_NATIVE=0`.
    """
    return _native.is_wanted()


def set_flags(_enabled: bool) -> tuple[bool]:
    """Set the switch, of the whole process; what it was before."""
    before = _native.is_wanted()
    _native.setting.on = bool(_enabled) and is_available()
    return (before,)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """Have the switch set so inside the block, in all threads."""
    (before,) = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(before)


__dir__ = _only_public(globals())
