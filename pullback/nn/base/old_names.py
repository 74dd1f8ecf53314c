"""Warnings of names that torch keeps for old programs."""

from __future__ import annotations

import warnings

from pullback.core.origin import stacklevel


def warn_of_old(name: str, instead: str) -> None:
    """Tell that a name is old, and what to use instead."""
    warnings.warn(f"{name} is old; use {instead}.", FutureWarning, stacklevel=stacklevel())
