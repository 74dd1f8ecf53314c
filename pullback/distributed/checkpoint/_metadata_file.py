"""The file `.metadata`: a pickle of torch's classes, read without running what it says.

Reading allows these classes alone, and believes no place, size or file name in it unchecked.
"""

from __future__ import annotations

import io
import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from pullback.core.dtype import dtype
from pullback.core.size import Size
from pullback.distributed.checkpoint import metadata as classes
from pullback.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from pullback.serialization.budget import Budget, refuse
from pullback.serialization.machine import Machine
from pullback.serialization.pickling import Pickler

__all__ = ["NAME", "StorageInfo", "dumped", "loaded"]

NAME = ".metadata"
_MODULE = "torch.distributed.checkpoint"


@dataclass
class StorageInfo:
    """In which file something lies, and where in it."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}


# Where torch's pickles have it.
StorageInfo.__module__, StorageInfo.__qualname__ = (
    "pullback.distributed.checkpoint.filesystem",
    "_StorageInfo",
)


def _path(*parts: str) -> str:
    """A path in a file is text here: where a checkpoint was written says nothing of where it is."""
    if any(type(part) is not str for part in parts):
        raise refuse("a path in it is no text")
    return os.path.join("", *parts)


_OLD_TENSORS = "torch.distributed._shard.sharded_tensor.metadata"  # before torch 2.3
_ALLOWED: dict[tuple[str, str], Any] = {
    **{(f"{_MODULE}.metadata", name): getattr(classes, name) for name in classes.__all__},
    (f"{_MODULE}.metadata", "_MEM_FORMAT_ENCODING"): classes._MEM_FORMAT_ENCODING,
    (f"{_MODULE}.filesystem", "_StorageInfo"): StorageInfo,
    (_OLD_TENSORS, "TensorProperties"): TensorProperties,
    (_OLD_TENSORS, "MEM_FORMAT_ENCODING"): classes._MEM_FORMAT_ENCODING,
    **{
        (module, name): _path
        for module in ("pathlib", "pathlib._local")
        for name in ("PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath")
    },
}


def dumped(metadata: Metadata) -> bytes:
    """The pickle that torch reads."""
    file = io.BytesIO()
    Pickler(file, 4).dump(metadata)
    return file.getvalue()


def _no_storage(reference: Any) -> NoReturn:
    raise refuse("it has tensors, which belong in the other files")


def loaded(path: Path) -> Metadata:
    """What a file says, checked."""
    size = path.stat().st_size
    with open(path, "rb") as file:
        try:
            found = Machine(file, size, _no_storage, Budget(size), _ALLOWED).load()
            _check(found)
        except (pickle.UnpicklingError, EOFError) as error:
            told = str(error).removeprefix("load(): ")
            raise pickle.UnpicklingError(f"{path} is not read: {told}") from error
    return found  # type: ignore[no-any-return]  # checked


def _is(value: Any, kind: type, what: str) -> Any:
    if type(value) is not kind:
        raise refuse(f"{what} is a {type(value).__name__}")
    return value


def _whole_numbers(value: Any, what: str) -> Size:
    numbers = _is(value, Size, what)
    if any(type(one) is not int or one < 0 for one in numbers):
        raise refuse(f"{what} has numbers below 0")
    return Size(numbers)


def _check(found: Any) -> None:
    for name, stored in _is(
        _field(_is(found, Metadata, "it"), "state_dict_metadata"), dict, "names"
    ).items():
        _is(name, str, "a name")
        if type(stored) is not BytesStorageMetadata:
            _check_tensor(name, _is(stored, TensorStorageMetadata, name))
    for index, place in _is(_field(found, "storage_data"), dict, "the table of places").items():
        _is(index, MetadataIndex, "a key of the table of places")
        _check_place(_is(_field(index, "fqn"), str, "a name"), _is(place, StorageInfo, "a place"))
    _check_paths(found.planner_data)
    meta = getattr(found, "storage_meta", None)
    if type(meta) not in (StorageMeta, type(None)):
        raise refuse("what it says of the save is something else")


def _field(owner: Any, name: str) -> Any:
    """A file may leave out what a class has no default for."""
    if name not in vars(owner):
        raise refuse(f"a {type(owner).__name__} has no {name}")
    return vars(owner)[name]


def _check_tensor(name: str, stored: TensorStorageMetadata) -> None:
    properties = _is(_field(stored, "properties"), TensorProperties, f"{name}'s properties")
    _is(_field(properties, "dtype"), dtype, f"{name}'s dtype")
    size = _whole_numbers(_field(stored, "size"), f"{name}'s size")
    for chunk in _is(_field(stored, "chunks"), list, f"{name}'s boxes"):
        _is(chunk, ChunkStorageMetadata, f"a box of {name}")
        starts = _whole_numbers(_field(chunk, "offsets"), f"where a box of {name} begins")
        sizes = _whole_numbers(_field(chunk, "sizes"), f"the size of a box of {name}")
        fits = len(starts) == len(sizes) == len(size)
        if not fits or any(a + n > m for a, n, m in zip(starts, sizes, size, strict=True)):
            raise refuse(f"a box of {name} is not inside it")


def _check_place(name: str, place: StorageInfo) -> None:
    path = _is(_field(place, "relative_path"), str, f"the file of {name}")
    if path in ("", ".", "..") or any(sign in path for sign in "/\\\0:"):
        raise refuse(f"the file of {name} is not in its directory: {path!r:.80}")
    for number in (_field(place, "offset"), _field(place, "length")):
        if type(number) is not int or number < 0:
            raise refuse(f"the place of {name} in its file is {number!r:.20}")


def _check_paths(paths: Any) -> None:
    if paths is None:
        return
    for name, path in _is(paths, dict, "the table of paths").items():
        _is(name, str, "a name")
        for part in _is(path, tuple, f"the path of {name}"):
            # A list is as long as its last number says.
            if type(part) is not str and not (type(part) is int and 0 <= part <= 10 * len(paths)):
                raise refuse(f"the path of {name} has {part!r:.20} in it")
        if not path:
            raise refuse(f"the path of {name} is empty")
