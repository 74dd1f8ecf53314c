"""Names of torch's code generator, which is not here."""

from __future__ import annotations

from typing import Any

from . import config

__all__ = ["compile", "config", "list_mode_options", "list_options"]


def compile(gm: Any, example_inputs: Any, options: Any = None) -> Any:
    """The graph module itself, which runs."""
    return gm


def list_options() -> list[str]:
    """The names of the settings."""
    return sorted(name for name in vars(config) if not name.startswith("_"))


def list_mode_options(mode: str | None = None, dynamic: Any = None) -> dict[str, Any]:
    """What the modes of `torch.compile` would set."""
    modes: dict[str, Any] = {
        "default": {},
        "reduce-overhead": {"triton.cudagraphs": True},
        "max-autotune": {"max_autotune": True, "triton.cudagraphs": True},
        "max-autotune-no-cudagraphs": {"max_autotune": True},
    }
    return modes[mode] if mode else modes
