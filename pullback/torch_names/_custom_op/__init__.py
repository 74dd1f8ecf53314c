"""The older interface for custom operators, as objects; `pullback.library` is the present one."""

from __future__ import annotations

from . import autograd, impl

__all__ = ["autograd", "impl"]
