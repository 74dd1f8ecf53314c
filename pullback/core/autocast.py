"""Autocast as a part of a thread's mode: for which devices it is on, and in which dtype.

Its own file because the mode carries it while it is on, and operators ask. What is cast to what is
in `operators/running/autocasting.py`, and what users write in `pullback/amp`.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from pullback.core.device import KINDS
from pullback.core.dtype import dtype, named_dtype
from pullback.core.mode import changed, current, settle

__all__ = ["AVAILABLE", "Autocast", "change", "dtype_for", "known_layout", "now"]

# Types of device that torch knows autocast for.
AVAILABLE = frozenset({"cpu", "cuda", "hpu", "ipu", "maia", "mps", "mtia", "xla", "xpu"})


@dataclass(frozen=True, slots=True, eq=False)
class Autocast:
    """One thread's settings."""

    enabled: frozenset[str] = frozenset()
    dtypes: dict[str, dtype] = field(default_factory=dict)  # of devices for which one was chosen
    cache_enabled: bool = True
    nesting: int = 0
    # Parameters cast already: id and dtype -> (parameter, cast); shared by nested regions.
    cache: dict[Any, tuple[Any, Any]] = field(default_factory=dict)


_USUAL = Autocast()
_settings: ContextVar[Autocast] = ContextVar("pullback_autocast", default=_USUAL)
now = _settings.get


def dtype_for(settings: Autocast, device_type: str) -> dtype:
    """The narrow dtype for a type of device: the chosen one, else bfloat16 on the CPU."""
    chosen = settings.dtypes.get(device_type)
    if chosen is not None:
        return chosen
    return named_dtype("bfloat16" if device_type == "cpu" else "float16")


def change(**changes: Any) -> None:
    """Change the settings of this thread; operators see them where autocast is on."""
    settings = replace(now(), **changes)
    _settings.set(settings)
    current.set(changed(settle(), autocast=settings if settings.enabled else None))


def known_layout(op: str, device_type: Any) -> str:
    """A type of device, checked."""
    if not isinstance(device_type, str):
        raise ValueError(
            f"{op}: device_type is a str such as 'cpu', got {type(device_type).__name__}."
        )
    if device_type not in KINDS:
        raise RuntimeError(f"{op}: {device_type!r} is no type of device; use 'cpu' or 'cuda'.")
    return device_type
