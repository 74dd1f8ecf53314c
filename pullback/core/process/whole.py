"""Contexts that are entered whole or not at all, and left whole.

An error or a Ctrl-C can come between any two steps of an `__enter__` or `__exit__`, and what was
half done would stay for good. Whoever changes more than one thing says how in two methods here.
"""

from __future__ import annotations

from typing import Any


class Whole:
    """A context of several steps.

    `_enter` makes the changes and returns what the block gets; `_leave` takes them back. It can be
    called after any part of `_enter`, and twice: each of its steps sets something to what it was.

    One moment stays: Python looks for a Ctrl-C when it begins a function, `__exit__` as any other.
    """

    __slots__ = ()

    def _enter(self) -> Any:
        raise NotImplementedError

    def _leave(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Any:
        try:
            return self._enter()
        except BaseException:
            self._leave()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            self._leave()
        except BaseException:
            self._leave()
            raise


class Reentrant:
    """A context that can be entered again while it is open; `_entry` makes a `Whole` each time."""

    def _entry(self) -> Whole:
        raise NotImplementedError

    def __enter__(self) -> Any:
        # Not made in __init__, which subclasses of users' need not call.
        entries: list[Whole] = self.__dict__.setdefault("_entries", [])
        entry = self._entry()
        try:
            entries.append(entry)
            return entry._enter()
        except BaseException:
            entry._leave()
            if entry in entries:
                entries.remove(entry)
            raise

    def __exit__(self, *error: object) -> None:
        entries: list[Whole] = self.__dict__["_entries"]
        entry = entries[-1]  # taken out last: an interrupt after pop() would lose it
        try:
            entry._leave()
        except BaseException:
            entry._leave()
            raise
        finally:
            if entries and entries[-1] is entry:
                entries.pop()
