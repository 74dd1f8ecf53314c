"""Which module of the package a class or function was written in, whatever it says of itself.

`__module__` is for others to read, and to set: where pullback stands in for torch, classes and
functions say that they are torch's, and `functools.wraps` gives a user's wrapper the module of what
it wraps. So nobody in the package goes by it. A function is known by the globals that it sees, a
class by what is noted here when it is renamed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

__all__ = ["home_of", "is_in_package", "is_ours", "path_of", "rename", "restore", "scope_name"]

_PACKAGE = __name__.partition(".")[0]
# Whose decorators put a function of theirs before somebody else's; so does the package.
_DECORATORS = ("contextlib", "functools")
_classes: dict[int, tuple[type, str]] = {}  # by id, as a metaclass may compare: class, its module


def home_of(thing: Any) -> str:
    """Name of the module that a class or function was written in.

    >>> import functools
    >>> from pullback.nn.functional import normalize
    >>> @functools.wraps(normalize)
    ... def mine(x): ...
    >>> mine.__module__ == normalize.__module__, home_of(mine) == home_of(normalize)
    (True, False)
    """
    if isinstance(thing, type):
        known = _classes.get(id(thing))
        return thing.__module__ if known is None else known[1]
    inner, scope = getattr(thing, "__wrapped__", None), getattr(thing, "__globals__", None)
    if scope is None:  # a function that Python's own `cache` made, a built-in one
        return str(getattr(thing, "__module__", None) or "") if inner is None else home_of(inner)
    home = scope_name(scope)
    decorates = inner is not None and (home in _DECORATORS or is_in_package(home))
    return home_of(inner) if decorates else home


def scope_name(scope: Mapping[str, Any]) -> str:
    """Name of the module whose globals these are."""
    # The package's own say "torch" while it stands in.
    top = scope is sys.modules[_PACKAGE].__dict__
    return _PACKAGE if top else str(scope.get("__name__") or "")


def path_of(thing: Any) -> str:
    """Full name of a class or function: its module, and its name there."""
    return f"{home_of(thing)}.{thing.__qualname__}"


def is_ours(thing: Any, *rooms: str) -> bool:
    """Whether a class or function is the package's; `rooms` are folders or modules, one of which.

    >>> import pullback as torch
    >>> is_ours(torch.nn.Linear), is_ours(torch.nn.Linear, "nn"), is_ours(torch.nn.Linear, "optim")
    (True, True, False)
    """
    return is_in_package(home_of(thing), *rooms)


@cache
def is_in_package(module: str, *rooms: str) -> bool:
    """The same of a module's own name."""
    places = [f"{_PACKAGE}.{room}" for room in rooms] or [_PACKAGE]
    return any(module == place or module.startswith(f"{place}.") for place in places)


def rename(thing: Any, module: str) -> None:
    """Let a class or function say that it is from `module`."""
    if isinstance(thing, type):
        _classes.setdefault(id(thing), (thing, thing.__module__))
    thing.__module__ = module


def restore(thing: Any, module: str) -> None:
    """Let it say again what it said."""
    _classes.pop(id(thing), None)
    thing.__module__ = module
