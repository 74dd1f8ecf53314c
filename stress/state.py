"""What a program can change beyond itself: modes, levels, hooks, observers."""

from __future__ import annotations

import sys
from typing import Any


def state() -> dict[str, Any] | None:
    """The state of this thread and process, by name; None where pullback is not loaded yet."""
    pullback = sys.modules.get("pullback")
    if pullback is None or not hasattr(pullback, "is_inference_mode_enabled"):
        return None
    from pullback.core import forward, mode, nesting
    from pullback.core.explain import anomaly
    from pullback.engine import node_observers
    from pullback.operators.dispatch import observers

    now = mode.get_mode()
    return {
        "grad mode": now.grad,
        "inference mode": now.inference,
        "default dtype": pullback.get_default_dtype(),
        "default device": str(pullback.get_default_device()),
        "dispatch modes": now.dispatch,
        "function modes": now.functions,
        "levels": now.levels,
        "saved-tensor hooks": now.saved_hooks,
        "autocast": now.autocast,
        "tracing": now.tracing,
        "dual levels": tuple(map(id, forward.open_levels())),
        "derivatives": len(nesting.running.get()),
        "anomaly mode": anomaly.state.enabled,
        "detours": frozenset(map(str, mode.fast.reasons)),
        "observers": tuple(observers._observers),
        "watchers": tuple(node_observers._observers),
    }


def changed(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[str]:
    """What differs, in words."""
    if before is None or after is None:
        return []
    return [f"{key}: {was} -> {after[key]}" for key, was in before.items() if was != after[key]]
