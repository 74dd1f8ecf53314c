"""Mixed precision for CUDA devices, under its old names; `pullback.amp` has the new ones."""

from __future__ import annotations

from pullback.core.listing import only_public as _only_public
from pullback.cuda.amp import autocast_mode as autocast_mode
from pullback.cuda.amp import grad_scaler as grad_scaler
from pullback.cuda.amp.autocast_mode import autocast, custom_bwd, custom_fwd
from pullback.cuda.amp.common import amp_definitely_not_available
from pullback.cuda.amp.grad_scaler import GradScaler

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]

__dir__ = _only_public(globals(), "autocast_mode grad_scaler")
