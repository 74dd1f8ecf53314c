"""Object code on disk, from one process to the next; every failure is as if nothing were there.

What is loaded is run, so it is loaded only from files that nobody else may have written, and only
for the text that it was made from.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from functools import cache

__all__ = ["Kept"]

MOST = 8192  # files, some 100 MB; beyond, those that were not used for longest go
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Kept:
    """The object code of one text, by all that it was made from."""

    def __init__(self, key: str) -> None:
        self.folder = _folder()
        self.key = hashlib.sha256(key.encode())
        self.name = f"{self.key.hexdigest()}.o"

    def _digest(self, code: bytes) -> bytes:
        """Of the key too: a file under another's name is not what it says."""
        digest = self.key.copy()
        digest.update(code)
        return digest.digest()

    def load(self) -> bytes | None:
        """The object code, if it is known."""
        if self.folder is None or not _is_safe(self.folder):
            return None
        path = os.path.join(self.folder, self.name)
        try:
            with open(path, "rb", opener=_opened) as file:
                if not _is_ours(os.fstat(file.fileno())):
                    return None
                digest, code = file.read(32), file.read()
        except OSError:
            return None
        if self._digest(code) != digest:
            return None
        with suppress(OSError):
            os.utime(path)  # it was used
        return code

    def store(self, code: bytes) -> None:
        """Keep it for the next process."""
        if self.folder is None:
            return
        with suppress(OSError):
            if not os.path.isdir(self.folder):
                os.makedirs(os.path.dirname(self.folder), exist_ok=True)
                os.makedirs(self.folder, mode=0o700, exist_ok=True)
                _is_safe.cache_clear()
            if not _is_safe(self.folder):
                return
            with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
                file.write(self._digest(code) + code)
            os.replace(file.name, os.path.join(self.folder, self.name))
            _make_room(self.folder)


def _folder() -> str | None:
    """Where object code is kept; None: nowhere.

    A folder that depends on where the process was started may have been prepared by anybody: such
    settings count as none, except for `PULLBACK_CACHE`, which means us.
    """
    own = os.environ.get("PULLBACK_CACHE")
    if own is not None:
        return None if own in ("", "0") else os.path.abspath(own)
    caches = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(caches):
        home = os.path.expanduser("~")  # itself where nobody knows the user
        if not os.path.isabs(home) or os.environ.get("HOME") == "":
            return None
        caches = os.path.join(home, ".cache")
    return os.path.join(caches, "pullback")


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _is_ours(found: os.stat_result) -> bool:
    """Whether nobody but the user, or the system's own, can have written what is there."""
    if not hasattr(os, "geteuid"):  # rights are of another kind there, and profiles private
        return True
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & _OTHERS_WRITE


@cache
def _is_safe(folder: str) -> bool:
    """Whether files in a folder are only those that we put there.

    One of our own that others may write to is closed to them: each file is looked at besides.
    """
    try:
        found = os.stat(folder)
        if hasattr(os, "geteuid") and found.st_uid == os.geteuid() and not _is_ours(found):
            os.chmod(folder, 0o700)
            found = os.stat(folder)
    except OSError:
        return False
    return _is_ours(found)


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
