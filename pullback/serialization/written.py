"""The names that files have for classes and functions of ours: torch's."""

from __future__ import annotations

import sys
from typing import Any

from pullback.core.home import is_ours
from pullback.core.tensor import Tensor

__all__ = ["torch_name"]

# Where users find what is written in the inner folders, and what torch calls these modules.
_PLACES = {
    "pullback": "torch",
    "pullback.nn.functional": "torch.nn.functional",
    "pullback.special": "torch.special",
    "pullback.linalg": "torch.linalg",
}


def torch_name(obj: Any) -> tuple[str, str] | None:
    """Module and name under which torch has the counterpart of a class or function of ours.

    >>> import pullback as torch
    >>> torch_name(torch.nn.Linear)
    ('torch.nn.modules.linear', 'Linear')
    """
    if obj is Tensor:
        return "torch", "Tensor"
    if not is_ours(obj):
        return None
    name = obj.__qualname__
    if not is_ours(obj, "core", "operators", "engine"):
        _, dot, below = obj.__module__.partition(".")  # where pickles look for it
        return f"torch{dot}{below}", name
    for own, theirs in _PLACES.items():
        if getattr(sys.modules.get(own), name, None) is obj:
            return theirs, name
    return None
