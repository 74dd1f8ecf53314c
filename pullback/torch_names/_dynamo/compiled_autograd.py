"""Torch's place for captured backward passes; they are in compiled/backward."""

from __future__ import annotations

from typing import Any

from pullback.compiled.backward import takeover
from pullback.compiled.backward.enable import Disabled, Enabled
from pullback.compiled.counting import counters
from pullback.core import passes

__all__ = ["clear_cache", "compile_reasons", "is_cache_empty", "reset"]

clear_cache, is_cache_empty = takeover.clear_cache, takeover.is_cache_empty
compile_reasons = takeover.compile_reasons


def _enable(
    compiler_fn: Any, dynamic: bool | None = True, ignore_active_disable_ctx: bool = True
) -> Enabled:
    """A block in which `compiler_fn(graph_module)` makes the functions that run backward passes.

    They are called with five lists: tensors, sizes, numbers, hooks and packed values.
    """
    return Enabled(compiler_fn, dynamic, ignore_active_disable_ctx)


def _disable() -> Disabled:
    """A block in which the engine runs backward passes, whatever is on around it."""
    return Disabled()


def reset() -> None:
    """Forget captured passes and what was counted of them."""
    clear_cache()
    counters["compiled_autograd"].clear()


def __getattr__(name: str) -> Any:
    """Flags of the calling thread: torch's `compiled_autograd_enabled` and the other one."""
    if name == "compiled_autograd_enabled":
        return isinstance(passes.taken_over.get(), takeover.compiled_autograd)
    if name == "in_compiled_autograd_region":
        return takeover.is_running.get()
    raise AttributeError(name)
