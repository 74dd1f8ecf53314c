"""`GradScaler` for CUDA devices, under its old name."""

from __future__ import annotations

from pullback.amp.old_scaler import OldGradScaler
from pullback.core.listing import only_public as _only_public

__all__ = ["GradScaler"]


class GradScaler(OldGradScaler):
    """The old form of `amp.GradScaler("cuda", ...)`."""

    _kind = "cuda"


__dir__ = _only_public(globals())
