"""The accelerator of this machine, whichever type it has: CUDA, or none."""

from __future__ import annotations

from typing import Any

from pullback.backends import accelerators as _found
from pullback.core.device import HOLDERS as _HOLDERS
from pullback.core.device import device as _device
from pullback.core.listing import only_public as _only_public

from . import memory
from .memory import *  # noqa: F403 (the names of its __all__)

__all__ = [
    *("Graph", "current_accelerator", "current_device_idx", "current_device_index"),
    *("current_stream", "device_count", "device_index", "get_device_capability", "is_available"),
    *("set_device_idx", "set_device_index", "set_stream", "synchronize"),
    *memory.__all__,
]

_kind = _found.Kind("accelerator", RuntimeError)


def current_accelerator(check_available: bool = False) -> _device | None:
    """The accelerator's type as a device without index; None where there is none.

    >>> import pullback as torch
    >>> torch.accelerator.current_accelerator(), torch.accelerator.device_count()
    (None, 0)
    """
    kind = _found.accelerator_kind()
    return None if kind is None else _device(kind)


def is_available() -> bool:
    """Whether there is an accelerator."""
    return _found.accelerator_kind() is not None


def device_count() -> int:
    """How many accelerators there are."""
    kind = _found.accelerator_kind()
    return 0 if kind is None else _HOLDERS[kind].devices


class device_index:  # noqa: N801 (torch's name)
    """Inside, one accelerator is the current one; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            raise _kind.missing("device_index")

    def __exit__(self, *error: object) -> None:
        pass


globals().update(
    _kind.refusals(
        "current_device_idx current_device_index current_stream get_device_capability "
        "set_device_idx set_device_index set_stream synchronize"
    )
)
Graph: Any = _kind.refusing_class("Graph", __name__, RuntimeError)

__dir__ = _only_public(globals(), "memory")
