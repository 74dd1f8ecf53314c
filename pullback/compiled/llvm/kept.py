"""Object code on disk, from one process to the next; every failure is as if nothing were there."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from functools import cache

__all__ = ["Kept"]

MOST = 8192  # files, some 100 MB; beyond, those that were not used for longest go


class Kept:
    """The object code of one text, by all that it was made from."""

    def __init__(self, key: str) -> None:
        caches = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
        folder = os.environ.get("PULLBACK_CACHE", os.path.join(caches, "pullback"))
        self.folder = None if folder in ("", "0") else folder
        self.name = f"{hashlib.sha256(key.encode()).hexdigest()}.o"

    def load(self) -> bytes | None:
        """The object code, if it is known."""
        if self.folder is None:
            return None
        path = os.path.join(self.folder, self.name)
        try:
            with open(path, "rb") as file:
                digest, code = file.read(32), file.read()
        except OSError:
            return None
        if hashlib.sha256(code).digest() != digest:
            return None
        with suppress(OSError):
            os.utime(path)  # it was used
        return code

    def store(self, code: bytes) -> None:
        """Keep it for the next process."""
        if self.folder is None:
            return
        with suppress(OSError):
            os.makedirs(self.folder, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
                file.write(hashlib.sha256(code).digest() + code)
            os.replace(file.name, os.path.join(self.folder, self.name))
            _make_room(self.folder)


@cache
def _make_room(folder: str) -> None:
    """Once in a process: leave half of the files where there are too many."""
    with os.scandir(folder) as found:
        files = [(one.stat().st_mtime, one.path) for one in found if one.name.endswith(".o")]
    if len(files) <= MOST:
        return
    for _, path in sorted(files)[: len(files) - MOST // 2]:
        with suppress(OSError):
            os.unlink(path)
