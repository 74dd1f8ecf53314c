"""Autocast's settings one by one, as functions at the top of torch."""

from __future__ import annotations

import warnings
from threading import get_ident
from typing import Any

from pullback.amp.compositions import compositions
from pullback.core import autocast as settings
from pullback.core.dtype import dtype as Dtype  # noqa: N812 (`dtype` is torch's argument name)
from pullback.core.origin import stacklevel

__all__ = [
    *("autocast_decrement_nesting", "autocast_increment_nesting", "clear_autocast_cache"),
    *("get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype"),
    *("is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled"),
    *("set_autocast_cache_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled"),
    *("set_autocast_dtype", "set_autocast_enabled", "set_autocast_gpu_dtype"),
]


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether this thread is in an autocast region for a type of device.

    >>> import pullback as torch
    >>> with torch.autocast("cpu"):
    ...     torch.is_autocast_enabled("cpu")
    True
    """
    return settings.known_layout("is_autocast_enabled", device_type) in settings.now().enabled


def set_autocast_enabled(*args: Any, **named: Any) -> None:
    """Turn autocast on or off for a type of device ("cuda" where none is given)."""
    given = dict(zip(("device_type", "enabled"), args, strict=False)) | named
    if len(args) == 1 and not named:
        given = {"device_type": "cuda", "enabled": args[0]}
    kind = settings.known_layout("set_autocast_enabled", given["device_type"])
    enabled = settings.now().enabled
    if (kind in enabled) == bool(given["enabled"]):
        return
    if given["enabled"]:
        compositions.begin(_entry(kind))
        settings.change(enabled=enabled | {kind})
    else:
        settings.change(enabled=enabled - {kind})
        compositions.end(_entry(kind))


def _entry(kind: str) -> tuple[str, str, int]:
    """Who wants compositions to ask: this thread, for a type of device."""
    return "set_autocast_enabled", kind, get_ident()


def get_autocast_dtype(device_type: str) -> Dtype:
    """The narrow dtype of a type of device.

    >>> import pullback as torch
    >>> torch.get_autocast_dtype("cuda")
    torch.float16
    """
    kind = settings.known_layout("get_autocast_dtype", device_type)
    return settings.dtype_for(settings.now(), kind)


def set_autocast_dtype(device_type: str, dtype: Dtype) -> None:
    """Choose the narrow dtype of a type of device."""
    kind = settings.known_layout("set_autocast_dtype", device_type)
    settings.change(dtypes={**settings.now().dtypes, kind: dtype})


def is_autocast_cache_enabled() -> bool:
    """Whether parameters are cast once per region."""
    return settings.now().cache_enabled


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Choose whether parameters are cast once per region."""
    settings.change(cache_enabled=bool(enabled))


def clear_autocast_cache() -> None:
    """Forget the parameters that were cast."""
    settings.now().cache.clear()


def autocast_increment_nesting() -> int:
    """One region more; how many there are now."""
    settings.change(nesting=settings.now().nesting + 1)
    return settings.now().nesting


def autocast_decrement_nesting() -> int:
    """One region less; how many there are now."""
    settings.change(nesting=settings.now().nesting - 1)
    return settings.now().nesting


# The old names, one for each device ---------------------------------------------------------------


def _old(name: str, instead: str) -> None:
    warnings.warn(
        f"{name}() is an old form of {instead}.", DeprecationWarning, stacklevel=stacklevel()
    )


def is_autocast_cpu_enabled() -> bool:
    """The old form of `is_autocast_enabled("cpu")`."""
    _old("is_autocast_cpu_enabled", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """The old form of `set_autocast_enabled("cpu", enabled)`."""
    _old("set_autocast_cpu_enabled", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> Dtype:
    """The old form of `get_autocast_dtype("cpu")`."""
    _old("get_autocast_cpu_dtype", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: Dtype) -> None:
    """The old form of `set_autocast_dtype("cpu", dtype)`."""
    _old("set_autocast_cpu_dtype", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> Dtype:
    """The old form of `get_autocast_dtype("cuda")`."""
    _old("get_autocast_gpu_dtype", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: Dtype) -> None:
    """The old form of `set_autocast_dtype("cuda", dtype)`."""
    _old("set_autocast_gpu_dtype", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)
