"""`save`: an object and the memory of its tensors, in torch's own format."""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy

from pullback.serialization import legacy
from pullback.serialization.options import get_crc32_options, is_skipping
from pullback.serialization.pickling import Pickler, Storage
from pullback.serialization.reading import Location

__all__ = ["save"]

_FOLDER = "archive"
# Where mapped, elements want to start at whole cache lines.
_ALIGNMENT = 64
# The length of a record's header without name and extra, and the id of an extra that is padding.
_HEADER, _PADDING = 30, 0x4246
_DATE = (1980, 1, 1, 0, 0, 0)


def save(
    obj: Any,
    f: Location,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object to a file (a path or an open binary file) that `load` and torch can read.

    Tensors that share memory still do so when loaded. Hooks, history and `.grad` are not saved.

    Example:
        >>> import io
        >>> import pullback as torch
        >>> file = io.BytesIO()
        >>> torch.save({"weight": torch.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> torch.load(file)
        {'weight': tensor([1., 1.])}
    """
    structure = io.BytesIO()
    is_legacy = not _use_new_zipfile_serialization
    other = None
    if pickle_module is not pickle:
        other = pickle_module.Pickler(io.BytesIO(), protocol=pickle_protocol)
    pickler = Pickler(structure, pickle_protocol, legacy=is_legacy, other=other)
    pickler.dump(obj)
    storages = list(pickler.storages.values())
    with opened_for_writing(f) as file:
        if is_legacy:
            legacy.write(file, structure.getvalue(), storages, pickle_protocol)
        else:
            order = None if _disable_byteorder_record else sys.byteorder
            _write(file, structure.getvalue(), storages, order)


@contextmanager
def opened_for_writing(f: Any) -> Iterator[IO[bytes]]:
    """A file by its path, or the file itself, which stays open."""
    if isinstance(f, str | os.PathLike):
        with open(f, "wb") as file:
            yield file
        return
    if not hasattr(f, "write"):
        raise AttributeError(f"expected a path or a file with `write`, got {type(f).__name__}.")
    if hasattr(f, "tell"):
        yield f
        return
    whole = io.BytesIO()  # an archive is written by its places, which only a file that tells has
    yield whole
    f.write(whole.getvalue())


def _write(file: IO[bytes], structure: bytes, storages: list[Storage], order: str | None) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(_record("data.pkl"), structure)
        if order is not None:
            archive.writestr(_record("byteorder"), order)
        for storage in storages:
            flat = numpy.ascontiguousarray(storage.flat)
            if is_skipping():
                flat = numpy.zeros_like(flat)
            record = _aligned(_record(f"data/{storage.key}"), archive)
            archive.writestr(record, flat.view(numpy.uint8).data)
        archive.writestr(_record("version"), "3\n")
        if not get_crc32_options():
            for record in archive.infolist():
                record.CRC = 0


def _record(name: str) -> zipfile.ZipInfo:
    """A record whose header depends on nothing but its name: equal objects make equal files."""
    return zipfile.ZipInfo(f"{_FOLDER}/{name}", _DATE)


def _aligned(record: zipfile.ZipInfo, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """The record, with padding in its header so that its bytes start at a multiple of 64."""
    start: int = archive.start_dir + _HEADER + len(record.filename)
    padding = -(start + 4) % _ALIGNMENT
    record.extra = struct.pack("<HH", _PADDING, padding) + b"\0" * padding
    return record
