"""Backends of users: refused, since tensors here are NumPy arrays (or CuPy's)."""

from __future__ import annotations

from typing import Any

from pullback.core.explain.absent import refusing

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend", "set_module"]

rename_privateuse1_backend = refusing("utils.rename_privateuse1_backend")
generate_methods_for_privateuse1_backend = refusing(
    "utils.generate_methods_for_privateuse1_backend"
)


def set_module(obj: Any, mod: str) -> None:
    """Say that an object belongs to a module: its `__module__`.

    >>> def f(): ...
    >>> set_module(f, "mine")
    >>> f.__module__
    'mine'
    """
    if not isinstance(mod, str):
        raise TypeError(f"set_module: a module is named by a str, got {type(mod).__name__}.")
    obj.__module__ = mod
