"""`cuda.amp.GradScaler` and its like: the scaler of one type of device, under its old name."""

from __future__ import annotations

import warnings
from typing import ClassVar

from pullback.amp.grad_scaler import GradScaler
from pullback.core.origin import stacklevel

__all__ = ["OldGradScaler"]


class OldGradScaler(GradScaler):
    """The scaler of the type of device that a subclass names."""

    _kind: ClassVar[str]

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        kind = self._kind
        warnings.warn(
            f"{kind}.amp.GradScaler is the old form of amp.GradScaler({kind!r}).",
            FutureWarning,
            stacklevel=stacklevel(),
        )
        super().__init__(kind, init_scale, growth_factor, backoff_factor, growth_interval, enabled)
