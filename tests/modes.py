"""Catches a test that changes a mode of its thread and does not change it back."""

import sys
from contextlib import contextmanager

import pytest


def _modes():
    """What a test can change for its whole thread, or None where it cannot have changed it."""
    pullback = sys.modules.get("pullback")
    if pullback is None or not hasattr(pullback, "is_inference_mode_enabled"):
        return None
    return {
        "grad mode": pullback.is_grad_enabled(),
        "inference mode": pullback.is_inference_mode_enabled(),
        "default dtype": pullback.get_default_dtype(),
    }


@contextmanager
def modes_kept():
    """Fail if a mode changed within, and set it back so that only the culprit fails."""
    before = _modes()
    yield
    after = _modes()
    if before is None or before == after:
        return
    import pullback

    pullback.set_grad_enabled(before["grad mode"])
    pullback.set_default_dtype(before["default dtype"])
    left = [f"{name}: {was} -> {after[name]}" for name, was in before.items() if was != after[name]]
    pytest.fail(f"left behind: {', '.join(left)}")
