"""`GradScaler` for the CPU, under its old name."""

from __future__ import annotations

import warnings

from pullback.amp import grad_scaler
from pullback.core.listing import only_public as _only_public
from pullback.core.origin import stacklevel

__all__ = ["GradScaler"]


class GradScaler(grad_scaler.GradScaler):
    """The old form of `amp.GradScaler("cpu", ...)`."""

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warnings.warn(
            "cpu.amp.GradScaler is the old form of amp.GradScaler('cpu').",
            FutureWarning,
            stacklevel=stacklevel(),
        )
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


__dir__ = _only_public(globals())
