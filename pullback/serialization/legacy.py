"""The format before torch 1.6: five pickles in a row, then the bytes of the storages.

A number that marks the format, its version, sizes and byte order of the machine that wrote it, the
object, the storages' keys; then for each key the count of its elements and the elements.
"""

from __future__ import annotations

import pickle
import struct
import sys
from collections.abc import Callable
from typing import IO, Any

import numpy

from pullback.core.device import CPU
from pullback.serialization.archive import read_exactly
from pullback.serialization.budget import Budget, refuse
from pullback.serialization.places import Restorer
from pullback.serialization.storages import (
    LoadedStorage,
    as_loaded,
    as_users_see_it,
    storage_reference,
)

__all__ = ["MAGIC_NUMBER", "PROTOCOL_VERSION", "load", "write"]

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
_COUNT = struct.Struct("<q")


def write(file: IO[bytes], structure: bytes, storages: list[Any], protocol: int) -> None:
    """Write an object's pickle and its storages, as torch did before 1.6."""
    machine = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for header in (MAGIC_NUMBER, PROTOCOL_VERSION, machine):
        pickle.dump(header, file, protocol=protocol)
    file.write(structure)
    storages = sorted(storages, key=lambda storage: storage.key)
    pickle.dump([storage.key for storage in storages], file, protocol=protocol)
    for storage in storages:
        flat = numpy.ascontiguousarray(storage.flat)
        file.write(_COUNT.pack(flat.nbytes if storage.is_untyped else flat.size))
        file.write(flat.view(numpy.uint8).data)


def load(
    file: IO[bytes], size: int, restorer: Restorer, read: Callable[..., Any], *, trusted: bool
) -> Any:
    """Read an object from `file`, of which `size` bytes are left."""
    if not size:
        raise EOFError("load(): the file is empty.")
    return _Reader(file, size, restorer, read, trusted=trusted).load()


class _Reader:
    """Reads the parts in order. Storages are made when the object names them, filled at the end."""

    def __init__(
        self,
        file: IO[bytes],
        size: int,
        restorer: Restorer,
        read: Callable[..., Any],
        *,
        trusted: bool,
    ) -> None:
        self._file = file
        self._end = file.tell() + size
        self._restorer = restorer
        self._read = read
        self._trusted = trusted
        self._budget = Budget(size)
        self._storages: dict[str, LoadedStorage] = {}
        self._parts: dict[str, LoadedStorage] = {}
        self._claimed = 0

    @property
    def _left(self) -> int:
        return self._end - self._file.tell()

    def _part(self, storage: Callable[[Any], Any]) -> Any:
        return self._read(self._file, self._left, storage, self._budget)

    def _header(self) -> None:
        """Refuse what is not in this format."""
        start = self._file.tell()
        try:
            magic = self._part(_no_storage)
        except (pickle.UnpicklingError, EOFError, ValueError, AttributeError, ImportError) as error:
            self._file.seek(start)
            raise pickle.UnpicklingError(
                "load(): this is no file that torch.save wrote: neither a ZIP archive nor the "
                "format from before torch 1.6."
            ) from error
        if type(magic) is not int or magic != MAGIC_NUMBER:
            raise pickle.UnpicklingError(
                "load(): this is no file that torch.save wrote: it starts with another number."
            )
        version = self._part(_no_storage)
        if version != PROTOCOL_VERSION:
            raise refuse(f"version {version!r:.20} of its format is not known")
        machine = self._part(_no_storage)
        if not isinstance(machine, dict) or type(machine.get("little_endian")) is not bool:
            raise refuse("it does not say its byte order")
        self._swapped = machine["little_endian"] != (sys.byteorder == "little")

    def load(self) -> Any:
        """The object, with its storages filled."""
        self._header()
        result = self._part(self._storage)
        keys = self._part(_no_storage)
        if not isinstance(keys, list) or len(keys) != len(self._storages):
            raise refuse("its list of storages is not that of its object")
        for key in keys:
            if type(key) is not str or key not in self._storages:
                raise refuse("it has a storage that nobody asked for")
            self._fill(self._storages[key])
        for part in self._parts.values():
            part.fill(part.flat)  # its bytes are there; what was made of them is not
        return result

    def _storage(self, reference: Any) -> Any:
        kind, key, place, count, view = storage_reference(reference)
        if key not in self._storages:
            size = count * kind.numpy_dtype.itemsize
            self._claimed += size
            if self._claimed > self._left:
                raise refuse("its storages claim more bytes than the file has")
            made = LoadedStorage(numpy.zeros(count, kind.numpy_dtype), kind, CPU)
            made.swapped = self._swapped
            self._storages[key] = as_loaded(self._restorer(made, place), kind)
        whole = self._storages[key]
        return as_users_see_it(whole if view is None else self._part_of(whole, view))

    def _part_of(self, whole: LoadedStorage, view: Any) -> LoadedStorage:
        """A storage that is part of another, as files from before torch 0.4 have them."""
        if type(view) is not tuple or len(view) != 3:
            raise refuse("a storage is part of another, but not said to be which")
        key, start, count = view
        if type(key) is not str or type(start) is not int or type(count) is not int:
            raise refuse("a storage is part of another, but not said to be which")
        if start < 0 or count < 0 or start + count > whole.flat.size:
            raise refuse("a storage that is part of another reaches beyond it")
        if key not in self._parts:
            part = LoadedStorage(whole.flat[start : start + count], whole.kind, whole.device)
            part.swapped = whole.swapped
            self._parts[key] = part
        return self._parts[key]

    def _fill(self, storage: LoadedStorage) -> None:
        header = self._file.read(_COUNT.size)
        if len(header) != _COUNT.size:
            raise EOFError("load(): the file ends before its storages do.")
        (count,) = _COUNT.unpack(header)
        size = storage.flat.nbytes
        if count != storage.flat.size:
            raise refuse("a storage has another count of elements than its tensors")
        raw = read_exactly(self._file, size)
        if raw is None:
            raise EOFError("load(): the file ends before its storages do.")
        flat = raw.view(storage.flat.dtype)
        storage.fill(flat.byteswap() if self._swapped else flat)


def _no_storage(reference: Any) -> Any:
    raise refuse("its header has tensors")
