"""Mixed precision on the CPU, under its old names; `pullback.amp` has the new ones."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public

from . import autocast_mode as autocast_mode
from . import grad_scaler as grad_scaler
from .autocast_mode import autocast
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]

__dir__ = _only_public(globals(), "autocast_mode grad_scaler")
