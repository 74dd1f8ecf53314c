"""`autocast` for CUDA devices, under its old name."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from pullback.amp import autocast_mode
from pullback.core.dtype import dtype as Dtype  # noqa: N812 (`dtype` is torch's argument name)
from pullback.core.dtype import named_dtype
from pullback.core.listing import only_public as _only_public
from pullback.core.origin import stacklevel

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


def _old(name: str) -> None:
    warnings.warn(
        f"cuda.amp.{name} is the old form of amp.{name} with a device_type.",
        FutureWarning,
        stacklevel=stacklevel(),
    )


class autocast(autocast_mode.autocast):  # noqa: N801 (torch's name)
    """The old form of `amp.autocast("cuda", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: Dtype | None = None, cache_enabled: bool = True
    ) -> None:
        _old("autocast")
        dtype = named_dtype("float16") if dtype is None else dtype
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: Dtype | None = None
) -> Callable[..., Any]:
    """The old form of `amp.custom_fwd(device_type="cuda")`."""
    _old("custom_fwd")
    return functools.partial(autocast_mode.custom_fwd, device_type="cuda")(
        fwd, cast_inputs=cast_inputs
    )


def custom_bwd(bwd: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The old form of `amp.custom_bwd(device_type="cuda")`."""
    _old("custom_bwd")
    return autocast_mode.custom_bwd(bwd, device_type="cuda")


__dir__ = _only_public(globals())
