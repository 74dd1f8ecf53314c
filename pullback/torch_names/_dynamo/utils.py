"""Counters of torch's tracing compiler, which stay empty here."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

__all__ = ["CompileProfiler", "compile_times", "counters", "is_compile_supported"]

counters: defaultdict[str, Counter[str]] = defaultdict(Counter)


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
