"""Training: mixed precision. `autocast` chooses dtypes, `GradScaler` keeps gradients in range."""

from __future__ import annotations

from pullback.amp import autocast_mode as autocast_mode
from pullback.amp import grad_scaler as grad_scaler
from pullback.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from pullback.amp.grad_scaler import GradScaler
from pullback.core.listing import only_public as _only_public

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

__dir__ = _only_public(globals(), "autocast_mode grad_scaler")
