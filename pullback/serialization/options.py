"""Choices for files: byte order where none is written, mapping flags, checksums, skipping data."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum

from pullback.core.process.whole import Whole

__all__ = [
    "LoadEndianness",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]

MAP_SHARED = getattr(mmap, "MAP_SHARED", 1)
MAP_PRIVATE = getattr(mmap, "MAP_PRIVATE", 2)


class LoadEndianness(Enum):
    """The byte order of files that do not say theirs."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class _Choices:
    """One for the process, as in torch; each is a single reference, read once per file."""

    endianness: LoadEndianness | None = None
    mmap_flags: int | None = MAP_PRIVATE
    crc32: bool = True


_skipping: ContextVar[bool] = ContextVar("pullback_skip_data", default=False)
_materializing: ContextVar[bool] = ContextVar("pullback_materialize_fakes", default=False)


def get_default_load_endianness() -> LoadEndianness | None:
    """The byte order assumed for files that do not say theirs; None is this machine's.

    >>> from pullback.serialization import get_default_load_endianness
    >>> print(get_default_load_endianness())
    None
    """
    return _Choices.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Choose the byte order that `load` assumes where a file does not say.

    Example:
        >>> from pullback import serialization
        >>> serialization.set_default_load_endianness(serialization.LoadEndianness.BIG)
        >>> serialization.get_default_load_endianness().name
        'BIG'
        >>> serialization.set_default_load_endianness(None)
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(
            "set_default_load_endianness(): wants a LoadEndianness or None, got "
            f"{type(endianness).__name__}."
        )
    _Choices.endianness = endianness


def assumed_byteorder() -> str:
    """The byte order for a file that does not say, as `sys.byteorder` has it."""
    if _Choices.endianness in (None, LoadEndianness.NATIVE):
        return sys.byteorder
    return "little" if _Choices.endianness is LoadEndianness.LITTLE else "big"


def get_default_mmap_options() -> int | None:
    """The flag for `load(mmap=True)`: `mmap.MAP_PRIVATE` unless chosen otherwise.

    >>> import mmap
    >>> from pullback.serialization import get_default_mmap_options
    >>> get_default_mmap_options() == mmap.MAP_PRIVATE
    True
    """
    return _Choices.mmap_flags


class set_default_mmap_options(Whole):  # noqa: N801  torch's name
    """Choose how `load(mmap=True)` maps files: MAP_PRIVATE (writes stay here) or MAP_SHARED.

    Counts at once; as a context manager it is taken back at the end of the block.

    Example:
        >>> import mmap
        >>> from pullback import serialization
        >>> with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        ...     serialization.get_default_mmap_options() == mmap.MAP_SHARED
        True
    """

    def __init__(self, flags: int) -> None:
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(
                "set_default_mmap_options(): flags must be mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"got {flags!r}."
            )
        self._before = _Choices.mmap_flags
        _Choices.mmap_flags = flags

    def _enter(self) -> None:
        pass

    def _leave(self) -> None:
        _Choices.mmap_flags = self._before


def get_crc32_options() -> bool:
    """Whether `save` computes checksums."""
    return _Choices.crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Choose whether `save` computes checksums, which `load` compares where they were computed.

    Without them other programs may refuse to unpack the file; `load` here and in torch does not.
    """
    _Choices.crc32 = bool(compute_crc32)


@contextmanager
def skip_data(materialize_fake_tensors: bool = False) -> Iterator[None]:
    """Within the block `save` leaves the bytes of tensors zero, and `load` does not read them.

    Args:
        materialize_fake_tensors: Whether fake tensors are written as if they had data, which a
            load then makes room for; so a file of the right form exists before there is a model.

    Example:
        >>> import io
        >>> import pullback as torch
        >>> file = io.BytesIO()
        >>> with torch.serialization.skip_data():
        ...     torch.save(torch.ones(2), file)
        >>> _ = file.seek(0)
        >>> torch.load(file)
        tensor([0., 0.])
    """
    before = _skipping.get(), _materializing.get()
    try:
        _skipping.set(True)
        _materializing.set(materialize_fake_tensors)
        yield
    finally:
        _skipping.set(before[0])
        _materializing.set(before[1])


def is_materializing() -> bool:
    """Whether fake tensors are written as if they had data."""
    return _materializing.get()


def is_skipping() -> bool:
    """Whether bytes of tensors are left out now."""
    return _skipping.get()
