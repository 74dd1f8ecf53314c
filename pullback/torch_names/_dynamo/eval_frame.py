"""What `compile` makes of a module, at torch's path; compiled/optimized_module.py has it."""

from __future__ import annotations

from pullback.compiled.optimized_module import OptimizedModule, innermost_fn

__all__ = ["OptimizedModule", "innermost_fn"]
