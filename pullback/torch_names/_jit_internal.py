"""What marks functions for TorchScript, under torch's private names; jit/_marks.py has it."""

from __future__ import annotations

from typing import Any

from pullback.jit import _marks

__all__ = [*_marks.__all__]


def __getattr__(name: str) -> Any:
    return getattr(_marks, name)
