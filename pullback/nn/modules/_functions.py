"""Functions under the names that torch's modules have for them."""

from __future__ import annotations

from pullback.utils.hooks import BackwardHookFunction

__all__ = ["BackwardHookFunction"]
