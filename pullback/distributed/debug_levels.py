"""How much ranks are asked to say and to check: torch's debug levels."""

from __future__ import annotations

import os
from enum import Enum

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]


class DebugLevel(Enum):
    """`OFF`, `INFO` or `DETAIL`. Calls are compared at every level (PULLBACK_DISTRIBUTED_DEBUG).

    >>> import pullback as torch
    >>> [level.name for level in torch.distributed.DebugLevel]
    ['OFF', 'INFO', 'DETAIL']
    """

    OFF = 0
    INFO = 1
    DETAIL = 2


def _of_environment() -> DebugLevel:
    given = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF").upper()
    if given not in DebugLevel.__members__:
        names = ", ".join(DebugLevel.__members__)
        raise RuntimeError(f"TORCH_DISTRIBUTED_DEBUG is one of {names}, got {given!r}.")
    return DebugLevel[given]


_level: list[DebugLevel] = []


def get_debug_level() -> DebugLevel:
    """The level: as it was set, or as TORCH_DISTRIBUTED_DEBUG says.

    >>> import pullback as torch
    >>> torch.distributed.get_debug_level().name
    'OFF'
    """
    return _level[0] if _level else _of_environment()


def set_debug_level(level: DebugLevel) -> None:
    """Set the level.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> dist.set_debug_level(dist.DebugLevel.DETAIL)
    >>> dist.get_debug_level().name
    'DETAIL'
    >>> dist.set_debug_level_from_env()
    """
    if not isinstance(level, DebugLevel):
        raise TypeError(f"set_debug_level takes a DebugLevel, got {type(level).__name__}.")
    _level[:] = [level]


def set_debug_level_from_env() -> None:
    """Set the level to what TORCH_DISTRIBUTED_DEBUG says now.

    >>> import pullback as torch
    >>> torch.distributed.set_debug_level_from_env()
    """
    _level[:] = [_of_environment()]
