"""`torch.distributed.checkpoint.planner`: who writes and reads what, as plans that ranks exchange.

A planner stands between a state dict and the files: programs replace it to save or load something
else than what is in the dict.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from math import prod
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.size import Size
from pullback.core.tensor import Tensor
from pullback.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
)

__all__ = [
    "BytesIOWriteData",
    "LoadItemType",
    "LoadPlan",
    "LoadPlanner",
    "ReadItem",
    "SavePlan",
    "SavePlanner",
    "TensorWriteData",
    "WriteItem",
    "WriteItemType",
]


class WriteItemType(Enum):
    """What is written: a tensor that is whole, a part of one, or a pickle."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """What is read: a box of a tensor, or a pickle."""

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class BytesIOWriteData:
    """How large a pickle is.

    Args:
        nbytes: Size of the pickle in bytes.
    """

    nbytes: int


@dataclass(frozen=True)
class TensorWriteData:
    """Which box of which tensor.

    Args:
        chunk: Offsets and sizes of the chunk.
    """

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Size


@dataclass(frozen=True)
class WriteItem:
    """One thing to write."""

    index: MetadataIndex
    type: WriteItemType
    bytes_io_data: BytesIOWriteData | None = None
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """How many bytes the tensor has; None for what is none."""
        if self.tensor_data is None:
            return None
        return prod(self.tensor_data.size) * int(self.tensor_data.properties.dtype.itemsize)


@dataclass(frozen=True)
class ReadItem:
    """One thing to read: which box of what a file has goes to which box of what is here."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Size
    storage_index: MetadataIndex
    storage_offsets: Size
    lengths: Size


@dataclass(frozen=True)
class SavePlan:
    """What one rank writes."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What one rank reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(ABC):
    """Says what is saved. Methods are called in this order."""

    @abstractmethod
    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Take the state dict."""

    @abstractmethod
    def create_local_plan(self) -> SavePlan:
        """What this rank could write."""

    @abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """What each rank does write, and what the checkpoint is then. For the coordinator."""

    @abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """What this rank writes, as the coordinator has said."""

    @abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The tensor, or the pickle, that is written for an item."""


class LoadPlanner(ABC):
    """Says what is loaded, and where to. Methods are called in this order."""

    @abstractmethod
    def set_up_planner(
        self,
        state_dict: dict[str, Any],
        metadata: Metadata | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """Take the state dict, which is to be filled."""

    @abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """What this rank reads."""

    @abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """What each rank reads. For the coordinator."""

    @abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """What this rank reads, as the coordinator has said."""

    @abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Take a pickle."""

    @abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Where a box is read to."""

    @abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """The box was read."""

    def resolve_bytes(self, read_item: ReadItem) -> io.BytesIO:
        """Where a pickle is read to; for storages that want to know."""
        raise NotImplementedError("LoadPlanner.resolve_bytes is not implemented by this planner.")


__dir__ = _only_public(globals())
