"""What a public module shows of itself: `dir()` gives its public names, not what it imports."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

__all__ = ["defined", "only_public"]


def only_public(namespace: dict[str, Any], also: str = "") -> Callable[[], list[str]]:
    """A module's `__dir__`: the names of its `__all__`, those of `also`, and the special ones.

    `also` is for modules of a package and names that load later, which `import *` does not bring.
    """

    def listed() -> list[str]:
        special = (name for name in namespace if name.startswith("__"))
        return sorted({*namespace["__all__"], *also.split(), *special})

    return listed


def defined(namespace: dict[str, Any], but: str = "") -> list[str]:
    """The `__all__` of a module that is filled from tables: what it has, `but` for some imports."""
    left_out = {"annotations", *but.split()}
    return sorted(
        name
        for name, value in namespace.items()
        if name[0] != "_" and name not in left_out and not isinstance(value, ModuleType)
    )
