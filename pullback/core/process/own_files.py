"""Files that are kept from one process to the next, in a folder of ours.

What is in them is run, so they are read only where nobody else may have written them. Every failure
is as if nothing were there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

__all__ = ["folder", "leave", "read", "write"]

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_safe: set[str] = set()  # folders that were looked at


def folder() -> str | None:
    """Where files are kept; None: nowhere.

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


def read(folder: str | None, name: str) -> bytes | None:
    """What a file holds, which counts as used now."""
    if folder is None or not _is_safe(folder):
        return None
    path = os.path.join(folder, name)
    try:
        with open(path, "rb", opener=_opened) as file:
            if not _is_ours(os.fstat(file.fileno())):
                return None
            found = file.read()
    except OSError:
        return None
    with suppress(OSError):
        os.utime(path)
    return found


def write(folder: str | None, name: str, parts: Iterable[bytes]) -> bool:
    """Put a file in the place of what is there, at once and whole; whether that could be done."""
    if folder is None:
        return False
    import tempfile

    try:
        if not os.path.isdir(folder):
            os.makedirs(os.path.dirname(folder), exist_ok=True)
            os.makedirs(folder, mode=0o700, exist_ok=True)
        if not _is_safe(folder):
            return False
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            try:
                file.writelines(parts)
                file.flush()
                os.replace(file.name, os.path.join(folder, name))
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError:
        return False
    return True


def leave(folder: str, ending: str, most: int) -> None:
    """Leave half of the files with an ending where there are too many: those used last."""
    with suppress(OSError):
        with os.scandir(folder) as found:
            listed = [one for one in found if one.name.endswith(ending)]
        if len(listed) <= most:  # when each was used is asked where it matters: that takes long
            return
        files = [(one.stat().st_mtime, one.path) for one in listed]
        for _, path in sorted(files)[: len(files) - most // 2]:
            with suppress(OSError):
                os.unlink(path)


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0))


def _is_ours(found: os.stat_result) -> bool:
    """Whether nobody but the user, or the system's own, can have written what is there."""
    if not hasattr(os, "geteuid"):  # rights are of another kind there, and profiles private
        return True
    return found.st_uid in (0, os.geteuid()) and not found.st_mode & _OTHERS_WRITE


def _is_safe(folder: str) -> bool:
    """Whether files in a folder are only those that we put there.

    One of our own that others may write to is closed to them: each file is looked at besides.
    """
    if folder in _safe:
        return True
    try:
        found = os.stat(folder)
        if hasattr(os, "geteuid") and found.st_uid == os.geteuid() and not _is_ours(found):
            os.chmod(folder, 0o700)
            found = os.stat(folder)
    except OSError:
        return False
    if not _is_ours(found):
        return False
    _safe.add(folder)
    return True
