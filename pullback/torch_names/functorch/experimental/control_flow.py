"""Control flow at the path where functorch tried it out; it is in func/control_flow.py."""

from __future__ import annotations

from pullback.func.control_flow import cond, map

__all__ = ["cond", "map"]
