"""Flattening of arguments by a known structure, for the code written from graphs."""

from __future__ import annotations

from typing import Any

from pullback.core.trees import pytree

__all__ = ["tree_flatten_spec"]


def tree_flatten_spec(value: Any, spec: Any) -> list[Any]:
    """The leaves of `value`, which must be nested as `spec` says."""
    leaves, found = pytree.tree_flatten(value)
    if found != spec:
        raise ValueError(f"The arguments are nested as {found}, the graph was made for {spec}.")
    return list(leaves)
