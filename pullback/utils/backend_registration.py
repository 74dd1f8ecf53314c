"""Backends of users: refused, since tensors here are NumPy arrays (or CuPy's)."""

from __future__ import annotations

from typing import Any

from pullback.core.process.refused import refusing

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend", "set_module"]

_WHY = "a backend of its own would bring kernels in C++, and there is no C++ behind these tensors"
_INSTEAD = "Write custom operators (docs/custom-operators.md)."

rename_privateuse1_backend = refusing("rename_privateuse1_backend", _WHY, _INSTEAD)
generate_methods_for_privateuse1_backend = refusing(
    "generate_methods_for_privateuse1_backend", _WHY, _INSTEAD
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
