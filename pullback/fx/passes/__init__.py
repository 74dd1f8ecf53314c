"""Passes over graphs."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public
from pullback.fx.passes import graph_drawer, shape_prop, split_module

__all__ = ["graph_drawer", "shape_prop", "split_module"]

__dir__ = _only_public(globals())
