"""Functions that look at values, inside vmap: called once for each example.

Each function names the arguments whose values it reads; if one of these differs between examples,
it calls itself again for each. The level does the calling, so that operators need not know of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pullback.core.mode import get_mode

T = TypeVar("T")


def level_reading(*values: Any) -> Any:
    """The innermost vmap level at which one of these arguments differs between examples, or None.

    For arguments whose values decide what a function does.
    """
    levels = get_mode().levels
    if not levels:
        return None
    found = [value.level for value in values if getattr(value, "level", None) in levels]
    return max(found, key=lambda level: level.number, default=None)


def each_example(level: Any, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """`function` of each example at `level`; its results, which must have one shape, stacked."""
    if kwargs.pop("out", None) is not None:
        raise RuntimeError(
            f"{function.__name__}: inside vmap, out= cannot take results that differ between "
            "examples."
        )
    stacked: T = level.each_example(function, args, kwargs)
    return stacked
