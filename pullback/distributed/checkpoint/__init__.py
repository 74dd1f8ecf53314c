"""`torch.distributed.checkpoint`: checkpoints that all ranks write together, in torch's own files.

`planner` says who writes what, `filesystem` writes and reads it, `state_dict_saver` and
`state_dict_loader` bring ranks, plans and files together; `state_dict` has the states of models and
optimizers under names that do not depend on how they lie over ranks. A checkpoint is complete, or
does not count.
"""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from pullback.core.explain.absent import absent as _absent
from pullback.core.listing import defined as _defined
from pullback.core.listing import only_public as _only_public
from pullback.distributed.checkpoint.api import CheckpointException
from pullback.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from pullback.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from pullback.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    TensorStorageMetadata,
)
from pullback.distributed.checkpoint.newest import latest
from pullback.distributed.checkpoint.per_rank import PerRank
from pullback.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
)
from pullback.distributed.checkpoint.state_dict_loader import load, load_state_dict
from pullback.distributed.checkpoint.state_dict_saver import async_save, save, save_state_dict
from pullback.distributed.checkpoint.storage import StorageReader, StorageWriter

_PARTS = ("format_utils", "state_dict")


if not TYPE_CHECKING:  # to type checkers it would mean that every name is there

    def __getattr__(name: str) -> _Any:
        if name in _PARTS:
            return _import_module(f"{__name__}.{name}")
        beside = _sys.modules.get(f"{__name__}.{name}")  # of those that only refuse
        if beside is not None:
            return beside
        raise _absent(__name__, name)


__all__: list[str] = _defined(globals(), "TYPE_CHECKING")
__dir__ = _only_public(globals())
