"""`torch.distributed.distributed_c10d`: where torch keeps the functions of `torch.distributed`."""

from __future__ import annotations

from typing import Any

import pullback.distributed as _distributed
from pullback.core.listing import only_public as _only_public
from pullback.distributed.group import ProcessGroup
from pullback.distributed.world import group_of


def _get_default_group() -> ProcessGroup:
    """The group of all ranks; ValueError before `init_process_group`."""
    found = group_of(None)
    assert found is not None  # every rank is in it
    return found


def _rank_not_in_group(group: Any) -> bool:
    return group_of(group) is None


def __getattr__(name: str) -> Any:
    return getattr(_distributed, name)


__all__: list[str] = [*_distributed.__all__]
__dir__ = _only_public(globals())
