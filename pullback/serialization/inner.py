"""Inner names of `torch.serialization` that libraries import: numbers of formats, ways to open."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import IO, Any

from pullback.serialization.archive import is_archive as _is_zipfile
from pullback.serialization.reading import opened_for_reading
from pullback.serialization.writing import opened_for_writing

__all__ = [
    "DEFAULT_PROTOCOL",
    "INT_SIZE",
    "LONG_SIZE",
    "MAGIC_NUMBER",
    "PROTOCOL_VERSION",
    "SHORT_SIZE",
    "STORAGE_KEY_SEPARATOR",
    "_is_path",
    "_is_zipfile",
    "_open_file_like",
]

DEFAULT_PROTOCOL = 2  # of pickles
# Of files before torch 1.6: what they begin with, and the sizes of C's numbers that they name.
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
LONG_SIZE, INT_SIZE, SHORT_SIZE = 4, 4, 2
STORAGE_KEY_SEPARATOR = ","


def _is_path(name_or_buffer: Any) -> bool:
    return isinstance(name_or_buffer, str | os.PathLike)


def _open_file_like(name_or_buffer: Any, mode: str) -> AbstractContextManager[IO[bytes]]:
    """A context with a file: opened and closed where a path is given, else left as it is."""
    if "w" in mode:
        return opened_for_writing(name_or_buffer)
    if "r" in mode:
        return opened_for_reading(name_or_buffer)
    raise RuntimeError(f"Files are opened to be read or written ('r', 'w'), got {mode!r}.")
