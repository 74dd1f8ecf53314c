"""`ShardedGradScaler`: loss scaling for sharded models."""

from __future__ import annotations

from typing import Any

from pullback.amp.grad_scaler import GradScaler
from pullback.core.listing import only_public as _only_public

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """A `GradScaler`, which asks all ranks by itself: gradients that lie over them say so.

    >>> from pullback.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
    >>> ShardedGradScaler("cpu", init_scale=4.0).get_scale()
    4.0
    """

    def __init__(
        self,
        device: str = "cpu",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
        self.process_group = process_group


__dir__ = _only_public(globals())
