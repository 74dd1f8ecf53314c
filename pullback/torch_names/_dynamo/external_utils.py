"""Helpers of torch's tracing compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["is_compiling", "wrap_inline"]


def is_compiling() -> bool:
    """Whether a program is being compiled: never."""
    return False


def wrap_inline(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function."""
    return fn
