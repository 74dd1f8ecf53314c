"""Tracing below autograd."""

from __future__ import annotations

__all__: list[str] = []
