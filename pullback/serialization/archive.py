"""The ZIP archive that files are since torch 1.6: its records, read within their bounds."""

from __future__ import annotations

import mmap
import pickle
import struct
import warnings
import zipfile
import zlib
from typing import IO, Any

import numpy

from pullback.core import origin
from pullback.core.arrays import Array
from pullback.serialization.budget import Budget, refuse
from pullback.serialization.options import MAP_SHARED

__all__ = ["Archive", "is_archive", "read_exactly"]

# A record's own header: signature, 22 bytes that the directory repeats, lengths of name and extra.
_HEADER = struct.Struct("<4s22xHH")
_BROKEN = (
    *(zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, struct.error, KeyError),
    *(NotImplementedError, RuntimeError, ValueError, OverflowError, IndexError, OSError),
)


def is_archive(file: IO[bytes]) -> bool:
    """Whether a file starts as a ZIP archive does; its position stays."""
    start = file.tell()
    found = file.read(4) == b"PK\x03\x04"
    file.seek(start)
    return found


class Archive:
    """A file's records. The sizes that it claims are compared with the file before any is read."""

    def __init__(self, file: IO[bytes], size: int, *, trusted: bool) -> None:
        """Read the directory of an archive of `size` bytes."""
        self._file = file
        self._size = size
        self.budget = None if trusted else Budget(size)
        try:
            self._zip = zipfile.ZipFile(file)
            self._records = {info.filename: info for info in self._zip.infolist()}
        except _BROKEN as error:
            raise refuse(f"its archive cannot be read ({error})") from error
        self.folder = self._found_folder()

    def _found_folder(self) -> str:
        for name in self._records:
            folder, _, rest = name.partition("/")
            if rest == "data.pkl":
                return folder
        raise pickle.UnpicklingError(
            "load(): the archive has no data.pkl, so torch.save did not write it."
        )

    def __contains__(self, name: str) -> bool:
        return f"{self.folder}/{name}" in self._records

    def _record(self, name: str) -> zipfile.ZipInfo:
        info = self._records.get(f"{self.folder}/{name}")
        if info is None:
            raise refuse(f"the record {name!r:.80} is missing")
        return info

    def length(self, name: str) -> int:
        """How many bytes a record claims to have."""
        return self._record(name).file_size

    def read(self, name: str) -> bytes:
        """The bytes of a record."""
        info = self._record(name)
        if self.budget is not None:
            self.budget.spend_data(info.file_size)
        try:
            if info.compress_type == zipfile.ZIP_STORED:
                raw: bytes = self._stored(info).tobytes()
                return raw
            with self._zip.open(info) as record:
                # One more than claimed: the record is as long as it says, or refused.
                found = record.read(info.file_size + 1)
        except _BROKEN as error:
            raise refuse(f"the record {name!r:.80} cannot be read ({error})") from error
        if len(found) != info.file_size:
            raise refuse(f"the record {name!r:.80} is not as long as it claims")
        return found

    def _start(self, info: zipfile.ZipInfo) -> int:
        """Where the bytes of a record that is not compressed begin."""
        if info.file_size != info.compress_size or info.flag_bits & 1:
            raise refuse("a record has two sizes, or is encrypted")
        self._file.seek(info.header_offset)
        signature, name, extra = _HEADER.unpack(self._file.read(_HEADER.size))
        start: int = info.header_offset + _HEADER.size + name + extra
        if signature != b"PK\x03\x04" or start + info.file_size > self._size:
            raise refuse("a record reaches beyond the file")
        return start

    def elements(self, name: str) -> Array:
        """The bytes of a record in memory that may be written; where the file can, read into it."""
        info = self._record(name)
        if info.compress_type != zipfile.ZIP_STORED:
            return numpy.frombuffer(bytearray(self.read(name)), numpy.uint8)
        if self.budget is not None:
            self.budget.spend_data(info.file_size)
        try:
            return self._stored(info)
        except _BROKEN as error:
            raise refuse(f"the record {name!r:.80} cannot be read ({error})") from error

    def _stored(self, info: zipfile.ZipInfo) -> Array:
        self._file.seek(self._start(info))
        found = read_exactly(self._file, info.file_size)
        if found is None:
            raise refuse("a record ends early")
        # Files written without checksums, which torch can do, have 0 there.
        if info.CRC and zlib.crc32(found) != info.CRC:
            if "/data/" not in info.filename:
                raise refuse("the checksum of its structure is wrong")
            # Written through a shared map, perhaps; torch does not look.
            warnings.warn(
                f"load(): the checksum of {info.filename} is wrong: its bytes were changed since "
                "the file was saved.",
                UserWarning,
                stacklevel=origin.stacklevel(),
            )
        return found

    def mapped(self, name: str, memory: mmap.mmap) -> Array:
        """The bytes of a record in a mapped file, without reading them."""
        info = self._record(name)
        try:
            if info.compress_type != zipfile.ZIP_STORED:
                raise refuse("compressed records cannot be mapped; leave mmap out")
            start = self._start(info)
        except _BROKEN as error:
            raise refuse(f"the record {name!r:.80} cannot be read ({error})") from error
        return numpy.frombuffer(memory, numpy.uint8, info.file_size, start)


def read_exactly(file: IO[bytes], size: int) -> Array | None:
    """That many bytes of a file as an array of its own memory; None if the file ends before."""
    into: Any = getattr(file, "readinto", None)
    if into is None:
        found = file.read(size)
        return numpy.frombuffer(bytearray(found), numpy.uint8) if len(found) == size else None
    made: Any = numpy.empty(size, numpy.uint8)
    memory, done = memoryview(made), 0
    while done < size:
        count = into(memory[done:])  # a raw file may give less than was asked for
        if not count:
            return None
        done += count
    whole: Array = made
    return whole


def mapped_file(path: Any, flags: int | None) -> mmap.mmap:
    """A file's memory map; with MAP_PRIVATE, writes stay in this process."""
    shared = flags == MAP_SHARED
    with open(path, "r+b" if shared else "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
