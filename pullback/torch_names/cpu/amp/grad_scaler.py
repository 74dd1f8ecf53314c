"""`GradScaler` for the CPU, under its old name."""

from __future__ import annotations

from pullback.amp.old_scaler import OldGradScaler
from pullback.core.listing import only_public as _only_public

__all__ = ["GradScaler"]


class GradScaler(OldGradScaler):
    """The old form of `amp.GradScaler("cpu", ...)`."""

    _kind = "cpu"


__dir__ = _only_public(globals())
