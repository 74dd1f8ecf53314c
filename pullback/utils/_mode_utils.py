"""`no_dispatch`: a block that the dispatch modes around it do not see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pullback.utils._python_dispatch import _without_modes as no_dispatch

__all__ = ["all_same_mode", "no_dispatch"]


def all_same_mode(modes: Iterable[Any]) -> bool:
    """Whether all are the same mode.

    >>> all_same_mode([None, None])
    True
    """
    listed = list(modes)
    return all(mode is listed[0] for mode in listed)
