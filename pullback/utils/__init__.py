"""Utilities under torch's module names; each is loaded when first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = ("_python_dispatch", "_pytree", "checkpoint", "data", "hooks")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"pullback.utils.{name}")
    raise AttributeError(f"module 'pullback.utils' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
