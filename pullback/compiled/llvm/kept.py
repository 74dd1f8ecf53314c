"""Object code on disk, from one process to the next; every failure is as if nothing were there.

It is loaded only from files that nobody else may have written (core/process/own_files.py), and only
for the text that it was made from.
"""

from __future__ import annotations

import hashlib
from functools import cache

from pullback.core.process import own_files

__all__ = ["Kept"]

MOST = 8192  # files, some 100 MB; beyond, those that were not used for longest go


class Kept:
    """The object code of one text, by all that it was made from."""

    def __init__(self, key: str) -> None:
        self.folder = own_files.folder()
        self.key = hashlib.sha256(key.encode())
        self.name = f"{self.key.hexdigest()}.o"

    def _digest(self, code: bytes) -> bytes:
        """Of the key too: a file under another's name is not what it says."""
        digest = self.key.copy()
        digest.update(code)
        return digest.digest()

    def load(self) -> bytes | None:
        """The object code, if it is known."""
        found = own_files.read(self.folder, self.name)
        if found is None or self._digest(found[32:]) != found[:32]:
            return None
        return found[32:]

    def store(self, code: bytes) -> None:
        """Keep it for the next process."""
        if own_files.write(self.folder, self.name, (self._digest(code), code)):
            _make_room(self.folder)


@cache
def _make_room(folder: str) -> None:
    """Once in a process."""
    own_files.leave(folder, ".o", MOST)
