"""`autocast` for the CPU, under its old name."""

from __future__ import annotations

import warnings

from pullback.amp import autocast_mode
from pullback.core.dtype import dtype as Dtype  # noqa: N812 (`dtype` is torch's argument name)
from pullback.core.dtype import named_dtype
from pullback.core.listing import only_public as _only_public
from pullback.core.origin import stacklevel

__all__ = ["autocast"]


class autocast(autocast_mode.autocast):  # noqa: N801 (torch's name)
    """The old form of `amp.autocast("cpu", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: Dtype | None = None, cache_enabled: bool = True
    ) -> None:
        warnings.warn(
            "cpu.amp.autocast is the old form of amp.autocast('cpu').",
            FutureWarning,
            stacklevel=stacklevel(),
        )
        dtype = named_dtype("bfloat16") if dtype is None else dtype
        super().__init__("cpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


__dir__ = _only_public(globals())
