"""Tracing below autograd."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public

__all__: list[str] = []

__dir__ = _only_public(globals(), "proxy_tensor symbolic_shapes")
