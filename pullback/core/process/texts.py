"""What written texts were compiled to, on disk from one process to the next.

Python takes 0.13 ms to compile a function that we wrote, fifteen times what it takes to load the
result, and the first training step of a small net writes two hundred. They are kept in one file,
which is read when the first text is written, and written when a process that had new ones ends: the
last of several to end wins, and what it did not know is compiled once more.

A file is trusted as far as its owner is (`own_files`), a record in it as far as its digest goes.
"""

from __future__ import annotations

import atexit
import hashlib
import marshal
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import MAGIC_NUMBER
from struct import Struct
from types import CodeType
from typing import Any

from pullback.core.process import own_files
from pullback.installed import VERSION

__all__ = ["TEXTS", "Texts"]

MOST = 2**21  # bytes of a file, some thousand texts; beyond, those used last stay
_FILES = 8  # one for each Python, its flags, and version of ours
_HEAD = Struct("<32s32sI")  # a record: the text's digest, that of text and result, its length


@cache
def _maker() -> Any:
    """The digest of what texts are compiled by: the Python, and its flags as they show."""
    code = compile('"a docstring"\nassert f(x), "why"', "", "exec")
    shown = (code.co_code, code.co_consts, code.co_linetable)
    return hashlib.sha256(repr((VERSION, sys.version, MAGIC_NUMBER, shown)).encode())


class Texts:
    """The code of each text, by all that it was made from."""

    def __init__(self) -> None:
        self._file = b""
        self._places: dict[bytes, tuple[int, int]] | None = None  # of records; None: not read yet
        self._used: set[bytes] = set()
        self._new: dict[bytes, bytes] = {}
        self._room = MOST

    def compiled(self, text: str, file: str) -> CodeType:
        """`compile(text, file, "exec")`, which depends on nothing else."""
        digest = _maker().copy()
        digest.update(f"{len(file)} {file} {text}".encode(errors="surrogatepass"))
        key = digest.digest()
        if self._places is None:
            self._read()
        found = self._found(key)
        if found is None:
            found = compile(text, file, "exec")
            self._keep(key, marshal.dumps(found))
        return found

    def _read(self) -> None:
        self._folder = own_files.folder()
        self._name = f"{_maker().hexdigest()[:16]}.texts"
        file = own_files.read(self._folder, self._name) or b""
        self._file, self._places = file, dict(_records(file))

    def _found(self, key: bytes) -> CodeType | None:
        """What is on disk for a text, if it is what was written there."""
        place = (self._places or {}).get(key)
        if place is None:
            return None
        start, stop = place
        _, digest, _ = _HEAD.unpack_from(self._file, start)
        result = self._file[start + _HEAD.size : stop]
        if hashlib.sha256(key + result).digest() != digest:
            return None
        try:
            made = marshal.loads(result)
        except (EOFError, TypeError, ValueError):
            return None
        if type(made) is not CodeType:
            return None
        self._used.add(key)
        return made

    def _keep(self, key: bytes, result: bytes) -> None:
        """For the next process; programs that write texts for ever stop somewhere."""
        record = _HEAD.pack(key, hashlib.sha256(key + result).digest(), len(result)) + result
        if self._folder is None or len(record) > self._room:
            return
        self._room -= len(record)
        if not self._new:
            atexit.register(self.store)
        self._new[key] = record

    def store(self) -> None:
        """Write what is new, what was used, and of the rest what there is room for."""
        new, self._new = self._new, {}
        if not new or self._folder is None:
            return
        file = own_files.read(self._folder, self._name) or b""  # as others left it
        there = {key: file[start:stop] for key, (start, stop) in _records(file)}
        used = {key: record for key, record in there.items() if key in self._used}
        records, room = [], MOST
        # A key stays where it was named first, with what was named last for it.
        for record in {**new, **used, **there, **new}.values():
            room -= len(record)
            if room < 0:
                break
            records.append(record)
        if own_files.write(self._folder, self._name, records):
            own_files.leave(self._folder, ".texts", _FILES)

    def forget_new(self) -> None:
        """In a forked child: its parent writes them."""
        self._new.clear()


def _records(file: bytes) -> Iterator[tuple[bytes, tuple[int, int]]]:
    """Where each whole record begins and ends, by its text's digest."""
    start = 0
    while start + _HEAD.size <= len(file):
        key, _, length = _HEAD.unpack_from(file, start)
        stop = start + _HEAD.size + length
        if stop > len(file):
            return
        yield key, (start, stop)
        start = stop


TEXTS = Texts()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=TEXTS.forget_new)
