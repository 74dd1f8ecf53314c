"""Kernels that users register for built-in operators: which of them are used, and where."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from pullback.core.origin import stacklevel
from pullback.core.process.warning_once import should_warn
from pullback.library.builtin import overloads
from pullback.library.builtin.names import OVERLOADS
from pullback.operators.dispatch import replaced

__all__ = ["forget", "use"]

_BELOW = ("CPU",)
_ABOVE = ("Autograd", "AutogradCPU")


def use(name: str, key: str, kernel: Callable[..., Any]) -> bool:
    """Let calls of a built-in operator run a kernel; whether there is such an operator.

    Kernels for other devices, and composite ones, which a built-in kernel outranks, change nothing.
    """
    if not _is_builtin(name):
        return False
    if key in (*_BELOW, *_ABOVE):
        base = name.partition("::")[2].partition(".")[0]
        if base not in OVERLOADS and overloads.declared(base) is None:
            raise NotImplementedError(
                f"{name} is made of other operators here and has no kernel that could be replaced. "
                "Register the kernel for those, which a TorchDispatchMode shows."
            )
        _warn(name, key)
        replaced.add(name, kernel, above=key in _ABOVE)
    return True


def _warn(name: str, key: str) -> None:
    if not should_warn("builtin kernel"):
        return
    warnings.warn(
        f"A kernel for {key} takes the place of the built-in one of {name} until its Library ends; "
        "all operators are slower meanwhile. This is said once, of the first operator.",
        stacklevel=stacklevel(),
    )


def forget(name: str, key: str, kernel: Callable[..., Any]) -> None:
    """Undo `use`."""
    if key in (*_BELOW, *_ABOVE):
        replaced.remove(name, kernel, above=key in _ABOVE)


def _is_builtin(name: str) -> bool:
    space, _, op = name.partition("::")
    return space == "aten" and overloads.is_known(op.partition(".")[0])
