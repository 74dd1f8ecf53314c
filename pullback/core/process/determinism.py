"""Whether the user wants deterministic algorithms.

Here all of them are: every operator gives the same bits for the same input on the same machine, so
nothing warns or raises. What the wish changes is memory that nobody wrote: `empty` fills it with
NaN, or the largest number, so that a program that reads it does so the same way each time.
"""

from __future__ import annotations

from typing import Any

import numpy

__all__ = [
    *("are_deterministic_algorithms_enabled", "get_deterministic_debug_mode"),
    *("is_deterministic_algorithms_warn_only_enabled", "set_deterministic_debug_mode"),
    "use_deterministic_algorithms",
]

_LEVELS = {"default": 0, "warn": 1, "error": 2}


class Wish:
    """Process-wide, as torch's: set by one thread, seen by all."""

    enabled = False
    warn_only = False
    fill = True  # torch.utils.deterministic.fill_uninitialized_memory
    fills = False  # both `enabled` and `fill`: what `empty` looks at

    def set(self, **changes: bool) -> None:
        """Change some of it."""
        vars(self).update(changes)
        self.fills = self.enabled and self.fill


wish = Wish()


def fill_unwritten(tensor: Any) -> Any:
    """Give fresh memory a value that shows, as torch does: NaN, or the largest number."""
    if tensor.device.type != "meta":
        fill_array(tensor._array)
    return tensor


def fill_array(array: Any) -> None:
    """The same of an array. A complex number is NaN by its real part alone."""
    kind = array.dtype.kind
    whole = kind in "iu"
    array.fill(True if kind == "b" else numpy.iinfo(array.dtype).max if whole else float("nan"))


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for deterministic algorithms: all are; `empty` fills its memory then.

    Example:
        >>> import pullback as torch
        >>> torch.use_deterministic_algorithms(True)
        >>> torch.are_deterministic_algorithms_enabled(), torch.empty(2)
        (True, tensor([nan, nan]))
        >>> torch.use_deterministic_algorithms(False)
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(
                f"use_deterministic_algorithms: {name} must be a bool, got {type(value).__name__}."
            )
    wish.set(enabled=mode, warn_only=warn_only)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic algorithms were asked for."""
    return wish.enabled


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether a warning was to do where there is none; here there always is one."""
    return wish.warn_only


def set_deterministic_debug_mode(debug_mode: Any) -> None:
    """The same wish as a number or a word: 0 or "default", 1 or "warn", 2 or "error"."""
    if not isinstance(debug_mode, int | str):
        raise TypeError(
            "set_deterministic_debug_mode: expected an int or a str, got "
            f"{type(debug_mode).__name__}."
        )
    level = _LEVELS.get(debug_mode, -1) if isinstance(debug_mode, str) else int(debug_mode)
    if level not in _LEVELS.values():
        raise RuntimeError(
            f"set_deterministic_debug_mode: {debug_mode!r} is none of 0, 1, 2, 'default', 'warn' "
            "and 'error'."
        )
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """The wish as a number: 0, 1 or 2."""
    return (1 if wish.warn_only else 2) if wish.enabled else 0
