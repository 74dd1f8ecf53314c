"""Passes over graphs."""

from __future__ import annotations

from pullback.fx.passes import graph_drawer, shape_prop, split_module

__all__ = ["graph_drawer", "shape_prop", "split_module"]
