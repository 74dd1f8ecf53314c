"""Functions of a capture for later calls: what they close over becomes arguments."""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any

__all__ = ["lifted"]


def lifted(function: Any, cells: list[Any], count: int) -> Any:
    """A function like another one, on other cells; where a cell is None, on its last arguments."""
    code, names, called = function.__code__, function.__globals__, function.__name__
    defaults, words = function.__defaults__, function.__kwdefaults__
    if not count:
        made = FunctionType(code, names, called, defaults, tuple(cells) or None)
        made.__kwdefaults__ = words
        return made

    def on_arguments(*args: Any) -> Any:
        rest = iter(args[len(args) - count :])
        closed = tuple([CellType(next(rest)) if one is None else one for one in cells])
        made = FunctionType(code, names, called, defaults, closed)
        return made(*args[: len(args) - count])

    return on_arguments
