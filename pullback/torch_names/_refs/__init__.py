"""`torch._refs`: operators written in operators, under the names of what they stand for.

Here every operator's forward is Python, so each reference is the operator itself; what torch has as
a method alone is that method.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pullback

_SPACES = frozenset(("fft", "linalg", "nn", "special"))


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _SPACES:
        return import_module(f"pullback.{name}")
    found = getattr(pullback, name, None)
    if found is None or not callable(found):
        found = getattr(pullback.Tensor, name, None)
    if found is None or not callable(found):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
