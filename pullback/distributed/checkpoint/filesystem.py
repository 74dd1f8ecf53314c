"""`torch.distributed.checkpoint.filesystem`: checkpoints as files in a directory.

Each rank writes one file, tensor after tensor, each as `torch.save` writes it; `.metadata`, which
comes last, says what is where. A checkpoint that is written over another takes other file names,
so that the one before counts until the new `.metadata` is there, whatever happens.
"""

from __future__ import annotations

import io
import os
import re
import uuid
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import IO, Any

from pullback import serialization
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.distributed.checkpoint import _metadata_file
from pullback.distributed.checkpoint._metadata_file import StorageInfo as _StorageInfo
from pullback.distributed.checkpoint.metadata import Metadata, StorageMeta
from pullback.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from pullback.distributed.checkpoint.planner_helpers import cut
from pullback.distributed.checkpoint.storage import (
    CheckpointId,
    StorageReader,
    StorageWriter,
    WriteResult,
)
from pullback.futures import Future

__all__ = ["FileSystemReader", "FileSystemWriter", "SerializationFormat"]

DEFAULT_SUFFIX = ".distcp"
_DATA_FILE = re.compile(r"__\d+_(\d+)\.distcp")


class SerializationFormat(Enum):
    """How tensors are written. There is one way here."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


@dataclass
class _StoragePrefix:
    """How a rank's files begin, and from which number on they are free."""

    prefix: str
    first: int = 0


class FileSystemWriter(StorageWriter):
    """Writes a checkpoint to a directory that all ranks see.

    Args:
        path: the directory; it is made if need be.
        single_file_per_rank: one file for all that a rank writes, or one for each value.
        sync_files: whether to wait until the files are on disk.
        thread_count: taken; a rank writes from one thread.
        per_thread_copy_ahead: taken; nothing is copied ahead.
        cache_staged_state_dict: taken; `async_save` copies anew each time.
        overwrite: whether a checkpoint may stand there already.
        _extensions: none are possible here.
        serialization_format: as `torch.save`, the only one here.

    >>> import tempfile
    >>> import pullback as torch
    >>> from pullback.distributed import checkpoint
    >>> writer = checkpoint.FileSystemWriter(tempfile.mkdtemp())
    >>> _ = checkpoint.save({"x": torch.ones(2)}, storage_writer=writer)
    >>> sorted(path.name for path in writer.path.iterdir())
    ['.metadata', '__0_0.distcp']
    """

    def __init__(
        self,
        path: CheckpointId,
        single_file_per_rank: bool = True,
        sync_files: bool = True,
        thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000,
        cache_staged_state_dict: bool = False,
        overwrite: bool = True,
        _extensions: Any = None,
        serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:
        if _extensions or serialization_format is not SerializationFormat.TORCH_SAVE:
            raise NotImplementedError(
                "FileSystemWriter: files are as torch.save writes them; there are no extensions "
                "and no other formats."
            )
        self.single_file_per_rank, self.sync_files = single_file_per_rank, sync_files
        self.overwrite = overwrite
        self.reset(path)

    def reset(self, checkpoint_id: CheckpointId | None = None) -> None:
        """Begin a checkpoint, in another directory if one is given."""
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Nothing to do."""

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Make the directory."""
        self.path.mkdir(parents=True, exist_ok=True)
        if not self.overwrite and (self.path / _metadata_file.NAME).exists():
            raise RuntimeError(f"There is a checkpoint in {self.path}, and overwrite=False.")
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Give each rank names that no file has yet."""
        free = 0
        if (self.path / _metadata_file.NAME).exists():
            taken = [m[1] for p in self.path.iterdir() if (m := _DATA_FILE.fullmatch(p.name))]
            free = 1 + max(map(int, taken), default=-1)
        return [
            replace(plan, storage_data=_StoragePrefix(f"__{rank}_", free))
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        """Write this rank's items."""
        names: _StoragePrefix = plan.storage_data
        parts = [plan.items] if self.single_file_per_rank else [[item] for item in plan.items]
        results = []
        for number, items in enumerate(parts, names.first):
            if items:
                results += self._write(f"{names.prefix}{number}{DEFAULT_SUFFIX}", items, planner)
        done: Future[list[WriteResult]] = Future()
        done.set_result(results)
        return done

    def _write(self, name: str, items: list[WriteItem], planner: SavePlanner) -> list[WriteResult]:
        results = []
        with open(self.path / name, "wb") as file:
            for item in items:
                start = file.tell()
                try:
                    _write_item(file, item, planner.resolve_data(item))
                except Exception as error:
                    error.add_note(f"While writing {item.index.fqn!r} to {self.path / name}.")
                    raise
                length = file.tell() - start
                place = _StorageInfo(name, start, length)
                results.append(WriteResult(item.index, length, place))
            self._sync(file)
        return results

    def _sync(self, file: IO[bytes]) -> None:
        if self.sync_files:
            file.flush()
            os.fsync(file.fileno())

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Write `.metadata`, with which the checkpoint counts; remove files that do no more."""
        places = {one.index: one.storage_data for written in results for one in written}
        metadata = replace(
            metadata, storage_data=places, storage_meta=self.storage_meta(), version="1.0.0"
        )
        unfinished = self.path / f"{_metadata_file.NAME}.tmp"
        with open(unfinished, "wb") as file:
            file.write(_metadata_file.dumped(metadata))
            self._sync(file)
        unfinished.replace(self.path / _metadata_file.NAME)
        if self.sync_files:
            _sync_directory(self.path)
        needed = {place.relative_path for place in places.values()}
        for path in self.path.iterdir():
            if _DATA_FILE.fullmatch(path.name) and path.name not in needed:
                path.unlink(missing_ok=True)

    def storage_meta(self) -> StorageMeta:
        """Where and by which save."""
        return StorageMeta(checkpoint_id=str(self.path), save_id=self.save_id)

    @property
    def checkpoint_id(self) -> CheckpointId:
        """The directory."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: CheckpointId) -> bool:
        """Whether it is a path; what has `://` in it is not."""
        return "://" not in os.fspath(checkpoint_id)


def _sync_directory(path: Path) -> None:
    if os.name == "posix":
        place = os.open(path, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)


class _From:
    """A file whose places count from where it is now: an archive in it is one by itself."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._start = file, file.tell()
        self.write, self.flush = file.write, file.flush

    def tell(self) -> int:
        return self._file.tell() - self._start

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        before = self._start if whence == os.SEEK_SET else 0
        return self._file.seek(place + before, whence) - self._start


def _write_item(file: IO[bytes], item: WriteItem, data: Tensor | io.BytesIO) -> None:
    if item.type is WriteItemType.BYTE_IO:
        assert isinstance(data, io.BytesIO)
        file.write(data.getbuffer())
        return
    assert isinstance(data, Tensor)
    tensor = data.detach().cpu()
    if tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size():
        tensor = tensor.clone()  # else all that it is a view of would be written
    serialization.save(tensor, _From(file))  # type: ignore[arg-type]  # what an archive asks of a file


class FileSystemReader(StorageReader):
    """Reads a checkpoint from a directory, as torch or we have written it.

    >>> import tempfile
    >>> import pullback as torch
    >>> from pullback.distributed import checkpoint
    >>> _ = checkpoint.save({"x": torch.ones(2, 3)}, checkpoint_id=(path := tempfile.mkdtemp()))
    >>> checkpoint.FileSystemReader(path).read_metadata().state_dict_metadata["x"].size
    torch.Size([2, 3])
    """

    def __init__(self, path: CheckpointId, _extension_registry: Any = None) -> None:
        self.storage_data: dict[Any, Any] = {}
        self.reset(path)

    def reset(self, checkpoint_id: CheckpointId | None = None) -> None:
        """Read from another directory, if one is given."""
        self.storage_data = {}
        if checkpoint_id is not None:
            self.path = Path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint has."""
        path = self.path / _metadata_file.NAME
        if not path.exists():
            raise FileNotFoundError(f"{self.path} has no complete checkpoint: no {path.name}.")
        found = _metadata_file.loaded(path)
        meta = found.storage_meta or StorageMeta()
        meta.load_id = self.load_id
        return replace(found, storage_meta=meta)

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Take what is where."""
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """The same."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """The same."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read this rank's items, file after file, in the order in which they lie there."""
        by_file: dict[str, list[tuple[_StorageInfo, ReadItem]]] = {}
        for item in plan.items:
            place = self._place(item)
            by_file.setdefault(place.relative_path, []).append((place, item))
        for name, wanted in by_file.items():
            path = self.path / name
            with open(path, "rb") as file:
                for place, item in sorted(wanted, key=lambda one: one[0].offset):
                    try:
                        _read_item(file, place, item, planner)
                    except Exception as error:
                        error.add_note(f"While reading {item.storage_index.fqn!r} from {path}.")
                        raise
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _place(self, item: ReadItem) -> _StorageInfo:
        place: _StorageInfo | None = self.storage_data.get(item.storage_index)
        if place is None:
            raise KeyError(
                f"{self.path / _metadata_file.NAME} does not say where {item.storage_index} is."
            )
        if place.transform_descriptors:
            raise NotImplementedError(
                f"{item.storage_index.fqn} was written with the extensions "
                f"{place.transform_descriptors}, which there are none of here."
            )
        return place

    @property
    def checkpoint_id(self) -> CheckpointId:
        """The directory."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: CheckpointId) -> bool:
        """Whether it is a path; what has `://` in it is not."""
        return "://" not in os.fspath(checkpoint_id)


def _read_item(file: IO[bytes], place: _StorageInfo, item: ReadItem, planner: LoadPlanner) -> None:
    file.seek(place.offset)
    data = file.read(place.length)
    if len(data) != place.length:
        raise EOFError(f"The file ends after {len(data)} of {place.length} bytes.")
    if item.type is LoadItemType.BYTE_IO:
        planner.load_bytes(item, io.BytesIO(data))
        return
    tensor = serialization.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"There is a {type(tensor).__name__} where a tensor should be.")
    part = cut(tensor, item.storage_offsets, item.lengths)
    target = planner.resolve_tensor(item).detach()
    if tuple(target.shape) != tuple(part.shape):
        raise ValueError(f"It is of shape {tuple(part.shape)}, not {tuple(target.shape)}.")
    target.copy_(part)
    planner.commit_tensor(item, target)


__dir__ = _only_public(globals())
