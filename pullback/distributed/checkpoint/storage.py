"""`torch.distributed.checkpoint.storage`: what somewhere to write to, and read from, has to do."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from pullback.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner
from pullback.futures import Future

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]

CheckpointId = str | os.PathLike[str]


@dataclass(frozen=True)
class WriteResult:
    """Where something was written.

    Args:
        size_in_bytes: Bytes written.
    """

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(ABC):
    """Somewhere to write to. Methods are called in this order."""

    @abstractmethod
    def reset(self, checkpoint_id: CheckpointId | None = None) -> None:
        """A new checkpoint begins, there if it is said."""

    @abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Whether this rank coordinates; `rank=` which one it is."""

    @abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Add what the storage wants to know of this rank's plan."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """The same, of all plans. For the coordinator."""

    @abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's items."""

    @abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """All ranks have written: make it count. For the coordinator."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: CheckpointId) -> bool:
        """Whether this could be the name of a checkpoint there."""

    def storage_meta(self) -> StorageMeta | None:
        """What is put down about this save."""
        return None


class StorageReader(ABC):
    """Somewhere to read from. Methods are called in this order."""

    @abstractmethod
    def reset(self, checkpoint_id: CheckpointId | None = None) -> None:
        """Another load begins, from there if it is said."""

    @abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint has."""

    @abstractmethod
    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Whether this rank coordinates; `rank=` which one it is."""

    @abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Add what the storage wants to know of this rank's plan."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The same, of all plans. For the coordinator."""

    @abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read this rank's items."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: CheckpointId) -> bool:
        """Whether this could be the name of a checkpoint there."""


__dir__ = _only_public(globals())
