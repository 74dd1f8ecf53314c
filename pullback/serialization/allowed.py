"""What users allow in files that nobody vouches for, beside tensors and containers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from pullback.serialization.written import torch_name

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals"]

SafeGlobal: TypeAlias = Callable[..., Any] | tuple[Callable[..., Any], str]

# Replaced whole, never changed: a load in another thread keeps the one that it began with.
_added: dict[tuple[str, str], tuple[Any, SafeGlobal]] = {}


def _entries(given: list[SafeGlobal]) -> dict[tuple[str, str], tuple[Any, SafeGlobal]]:
    made = {}
    for one in given:
        target, name = one if isinstance(one, tuple) else (one, None)
        if not callable(target):
            raise TypeError(
                f"add_safe_globals(): wants classes and functions, got {type(target).__name__}."
            )
        if name is None:
            place = torch_name(target) or (target.__module__, target.__qualname__)
        else:
            module, _, last = name.rpartition(".")
            place = module, last
        made[place] = target, one
    return made


def add_safe_globals(safe_globals: list[SafeGlobal]) -> None:
    """Allow classes and functions in files that are loaded with `weights_only=True`.

    A file may then call them with arguments of its choice. `(function, "module.name")` gives the
    name that files use.

    Example:
        >>> from fractions import Fraction
        >>> from pullback import serialization
        >>> serialization.add_safe_globals([Fraction])
        >>> serialization.get_safe_globals()
        [<class 'fractions.Fraction'>]
        >>> serialization.clear_safe_globals()
    """
    global _added
    _added = {**_added, **_entries(safe_globals)}


def get_safe_globals() -> list[SafeGlobal]:
    """What `add_safe_globals` has added."""
    return [given for _, given in _added.values()]


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` has added."""
    global _added
    _added = {}


@contextmanager
def safe_globals(safe_globals: list[SafeGlobal]) -> Iterator[None]:
    """Allow classes and functions within a block only.

    >>> import io
    >>> from fractions import Fraction
    >>> import pullback as torch
    >>> file = io.BytesIO()
    >>> torch.save(Fraction(1, 3), file)
    >>> _ = file.seek(0)
    >>> with torch.serialization.safe_globals([Fraction]):
    ...     torch.load(file)
    Fraction(1, 3)
    """
    global _added
    before = _added
    try:
        _added = {**before, **_entries(safe_globals)}
        yield
    finally:
        _added = before


def allowed_by_user() -> dict[tuple[str, str], Any]:
    """By the module and name that files use."""
    return {place: target for place, (target, _) in _added.items()}
