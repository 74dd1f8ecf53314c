"""Nested containers, under the name that torch's users know; core/pytree.py has them."""

from __future__ import annotations

from pullback.core.pytree import (
    TreeSpec,
    broadcast_prefix,
    register_pytree_node,
    tree_all,
    tree_any,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_structure,
    tree_unflatten,
    treespec_pprint,
)

__all__ = [
    "TreeSpec",
    "broadcast_prefix",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
    "treespec_pprint",
]
