"""What `compile` makes of a module, at torch's path; compiler/optimized_module.py has it."""

from __future__ import annotations

from pullback.compiler.optimized_module import OptimizedModule, innermost_fn

__all__ = ["OptimizedModule", "innermost_fn"]
