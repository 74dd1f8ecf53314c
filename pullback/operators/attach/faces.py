"""Public modules filled from the generated tables of names: what is found where, under which name.

Their own file because the top level, `nn.functional`, `linalg` and the others do the same with
their part of names.py.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from pullback.core.home import is_ours
from pullback.core.tensor import Tensor
from pullback.operators.guarding import guarded

__all__ = ["fill", "loaded", "look_up", "pairs"]

# Where methods that are functions too trust to be called as methods, of a tensor.
_TRUSTING = ("core.tensor", "operators.shape.reshape_inplace")


def pairs(names: str) -> Iterator[tuple[str, str]]:
    """Public name and own name of each word of a table; they differ in a word like `ger=outer`."""
    for word in names.split():
        public, _, own = word.partition("=")
        yield public, own or public


def look_up(family: ModuleType, own: str) -> Any:
    """What a family calls by this name, or the method that it gave Tensor (in-place forms)."""
    if own in vars(family):
        return vars(family)[own]
    found = getattr(Tensor, own)
    if not is_ours(found, *_TRUSTING):
        return found
    return guarded(found, of_self=is_ours(found, "core.tensor"))


def loaded(families: Mapping[str, str]) -> dict[str, str]:
    """Those of the families that are loaded: a table must not be why they are."""
    return {
        family: names
        for family, names in families.items()
        if f"pullback.operators.{family}" in sys.modules
    }


def fill(namespace: dict[str, Any], families: Mapping[str, str]) -> list[str]:
    """Give a module the functions that these families have for it; their public names."""
    filled = []
    for family, names in families.items():
        module = import_module(f"pullback.operators.{family}")
        for public, own in pairs(names):
            if own not in vars(module) and not hasattr(Tensor, own):
                continue  # the table is behind the families until `make generate` has run
            namespace[public] = look_up(module, own)
            filled.append(public)
    return filled
