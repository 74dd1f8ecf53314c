"""Warnings that come once in a process, unless the user wants them each time."""

from __future__ import annotations

__all__ = ["is_warn_always_enabled", "set_warn_always", "should_warn"]


class _Wish:
    """Process-wide, as torch's."""

    always = False


_given: set[str] = set()


def set_warn_always(mode: bool, /) -> None:
    """Whether warnings that come once in a process come each time.

    >>> import pullback as torch
    >>> torch.set_warn_always(False)
    >>> torch.is_warn_always_enabled()
    False
    """
    if not isinstance(mode, bool):
        raise RuntimeError(f"set_warn_always() takes a bool, got {type(mode).__name__}.")
    _Wish.always = mode


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was last given."""
    return _Wish.always


def should_warn(what: str) -> bool:
    """Whether to give the warning of this name now."""
    if what in _given and not _Wish.always:
        return False
    _given.add(what)
    return True
