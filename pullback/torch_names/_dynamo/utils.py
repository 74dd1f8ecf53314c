"""Counters of compiled programs, under torch's name."""

from __future__ import annotations

from typing import Any

from pullback.compiled.counting import counters

__all__ = ["CompileProfiler", "compile_times", "counters", "is_compile_supported"]


def compile_times(repr: str = "str", aggregate: bool = False) -> Any:
    """How long compiling took: nothing was compiled."""
    return "Nothing was compiled." if repr == "str" else ([], [])


def is_compile_supported(device_type: str) -> bool:
    """Whether programs of a device are compiled: none are."""
    return False


class CompileProfiler:
    """Counts frames and operators that were compiled: none are."""

    def __init__(self) -> None:
        self.frame_count = self.op_count = 0

    def __enter__(self) -> CompileProfiler:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def report(self) -> str:
        """What was counted."""
        return "Nothing was compiled."
