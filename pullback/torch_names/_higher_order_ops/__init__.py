"""Torch's place for control flow as functions; it is in func/control_flow.py.

Each function is also found in a module of its own name, as `_higher_order_ops.cond.cond`.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from pullback.func.control_flow import associative_scan, cond, map, scan, while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]


def _add_modules() -> None:
    """Modules that `import` finds; the names here stay those of the functions."""
    for name in __all__:
        path = f"{__name__}.{name}"
        module = ModuleType(path, f"`{name}` at the path where torch defines it.")
        module.__spec__ = ModuleSpec(path, None)
        module.__dict__.update({name: globals()[name], "__all__": [name]})
        sys.modules[path] = module


_add_modules()
