"""`torch.ao.nn`: layers on quantised tensors, which are not here."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pullback.core.explain.absent import absent
from pullback.core.listing import only_public as _only_public

__all__ = ["quantized"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise absent(__name__, name)


__dir__ = _only_public(globals())
