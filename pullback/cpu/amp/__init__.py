"""Mixed precision on the CPU, under its old names; `pullback.amp` has the new ones."""

from __future__ import annotations

from pullback.cpu.amp.autocast_mode import autocast
from pullback.cpu.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast"]
