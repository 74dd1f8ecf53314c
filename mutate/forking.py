"""Changes tried in forks of one process that has the tests collected: ten times as quick.

Functions get the changed code while they are there already. What only a fresh import would show
(what runs when a module is imported, programs that tests start) is left to `trying`.
"""

from __future__ import annotations

import ast
import gc
import itertools
import marshal
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from mutate import LEFT_OUT
from mutate.changes import Change
from mutate.covering import Map
from mutate.recording import function_of
from mutate.trying import PER_CHANGE, Outcome, mirrors, same_code


class Tests:
    """The tests of a session, run in children of this process."""

    def __init__(self, items: Sequence[Any]) -> None:
        self.items: dict[str, list[Any]] = {}
        for item in items:
            self.items.setdefault(function_of(item.nodeid), []).append(item)
        self.sound: dict[str, bool] = {}  # whether a test passes in a fork as things are

    def killer(self, names: Sequence[str], change: Callable[[], None], limit: float) -> str | None:
        """The first test that fails by a change; "" if it takes too long, None if there is none."""
        left = [name for name in names if self.sound.get(name, True)]
        while True:
            at = self._first_failure(left, change, limit)
            if at is None or at < 0:
                return None if at is None else ""
            name = left[at]
            if name not in self.sound:
                self.sound[name] = self._first_failure([name], lambda: None, limit) is None
            if self.sound[name]:
                return name
            left = left[at + 1 :]

    def _first_failure(
        self, names: Sequence[str], change: Callable[[], None], limit: float
    ) -> int | None:
        """The place of the first that fails, -1 if that takes too long, None if all pass."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            self._run(names, change, write)
        os.close(write)
        until = time.monotonic() + limit
        try:
            while os.waitpid(child, os.WNOHANG) == (0, 0):
                if time.monotonic() > until:
                    os.killpg(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    return -1
                time.sleep(0.01)
            said = os.read(read, 100).decode()
        finally:
            os.close(read)
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # what a test started and left
        done, _, passed = said.partition(" ")
        return None if passed else int(done or "0")

    def _run(self, names: Sequence[str], change: Callable[[], None], write: int) -> None:
        """In the child: say how far it came, and end."""
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        done = 0
        try:
            change()
            todo = [(i, item) for i, name in enumerate(names) for item in self.items.get(name, ())]
            for place, (i, item) in enumerate(todo):
                done = i
                after = todo[place + 1][1] if place + 1 < len(todo) else None
                item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
                if FAILED:
                    os.write(write, str(i).encode())
                    os._exit(1)
            os.write(write, f"{done} passed".encode())
        except BaseException:
            os.write(write, str(done).encode())
        finally:
            os._exit(0)


def code_of(text: str, path: str) -> Iterator[CodeType]:
    """The code of a module and of all functions in it, in one order."""
    stack = [compile(text, path, "exec", dont_inherit=True)]
    while stack:
        code = stack.pop()
        yield code
        stack.extend(one for one in code.co_consts if isinstance(one, CodeType))


class CannotPatchError(Exception):
    """A change that only a fresh import shows."""


def functions() -> dict[str, list[FunctionType]]:
    """All functions of this process, by the file that they are written in."""
    found: dict[str, list[FunctionType]] = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType):
            found.setdefault(one.__code__.co_filename, []).append(one)
    return found


def patch(change: Change, root: Path, known: dict[str, list[FunctionType]]) -> Callable[[], None]:
    """What makes a change in the functions of this process."""
    path = str(root / change.path)
    text = Path(path).read_text(encoding="utf-8")
    if change.statement is None:
        return _patched_text(change, path, text)
    old, new = list(code_of(text, path)), list(code_of(change.apply(text), path))
    if len(old) != len(new):
        raise CannotPatchError
    pairs = {
        (a.co_qualname, a.co_firstlineno): b
        for a, b in zip(old, new, strict=True)
        if marshal.dumps(a) != marshal.dumps(b) and a.co_name != "<module>"
    }
    found = [
        (one, pairs[one.__code__.co_qualname, one.__code__.co_firstlineno])
        for one in known.get(path, ())
        if (one.__code__.co_qualname, one.__code__.co_firstlineno) in pairs
    ]
    if not found or any(one.__code__.co_freevars != code.co_freevars for one, code in found):
        raise CannotPatchError

    def make() -> None:
        for one, code in found:
            one.__code__ = code

    return make


def _patched_text(change: Change, path: str, text: str) -> Callable[[], None]:
    """The same for a constant that is a text, of which functions are written on first use."""
    tree = ast.parse(change.apply(text))
    for one in tree.body:
        if (
            isinstance(one, ast.Assign)
            and isinstance(one.value, ast.Constant)
            and isinstance(one.value.value, str)
            and isinstance(one.targets[0], ast.Name)
            and one.lineno <= change.line <= (one.end_lineno or 0)
        ):
            name, value = one.targets[0].id, one.value.value
            modules = [m for m in sys.modules.values() if getattr(m, "__file__", None) == path]
            return lambda: setattr(modules[0], name, value)
    raise CannotPatchError


FAILED: list[str] = []  # in a child: the tests that failed there


class Loop:
    """A plugin of pytest that tries changes instead of running the tests."""

    def __init__(
        self, changes: Iterator[Change], root: Path, known: Map, told: Callable[[Outcome], None]
    ) -> None:
        self.changes, self.root, self.known, self.told = changes, root, known, told
        by_line = (names for lines in known.tests.values() for names in lines.values())
        self.recorded = {name for names in by_line for name in names}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        """Try one after the other."""
        tests = Tests(session.items)
        gc.collect()
        self.functions = functions()
        gc.freeze()  # what a child never touches it shares
        for change in self.changes:
            self.told(self._outcome(change, tests))
        return True

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test in a child is over."""
        if report.failed:
            FAILED.append(report.nodeid)

    def _outcome(self, change: Change, tests: Tests) -> Outcome:
        began = time.monotonic()
        text = (self.root / change.path).read_text(encoding="utf-8")
        if same_code(change, text):
            return Outcome(change, "equivalent", 0, 0.0)
        try:
            make = patch(change, self.root, self.functions)
        except CannotPatchError:
            return Outcome(change, "left out", 0, 0.0)
        names = self._chosen(change, text, tests)
        if not names:
            return Outcome(change, "nobody comes by", 0, 0.0)
        killer = tests.killer(names, make, limit=10 + 6 * PER_CHANGE)
        what = "survived" if killer is None else "killed" if killer else "endless"
        return Outcome(change, what, len(names), time.monotonic() - began)

    def _chosen(self, change: Change, text: str, tests: Tests) -> list[str]:
        """What comes by, then what mirrors the file or is newer than the map; quickest first."""
        near = tuple(file + "::" for file in mirrors(change.path, self.root))
        by = self.known.tests_of(change, text.splitlines())
        more = [n for n in tests.items if n not in self.recorded or n.startswith(near or "\0")]
        return [*self._quick(by), *(n for n in self._quick(more) if n not in by)]

    def _quick(self, names: list[str]) -> list[str]:
        chosen, total = [], 0.0
        for name in sorted(names, key=lambda name: self.known.seconds.get(name, 0.0)):
            total += self.known.seconds.get(name, 0.0)
            if total > PER_CHANGE:
                break
            chosen.append(name)
        return chosen


def tried(
    changes: Sequence[Change], root: Path, known: Map, seconds: float, folders: Sequence[str]
) -> list[Outcome]:
    """Try changes in this order until the time is over."""
    until = time.monotonic() + seconds
    left_out = ["--ignore=" + one for one in LEFT_OUT if (root / one).exists()]
    found: list[Outcome] = []
    inside = itertools.takewhile(lambda _: time.monotonic() < until, changes)
    plugin = Loop(inside, root, known, found.append)
    pytest.main(["-q", "-p", "no:cacheprovider", *left_out, *folders], plugins=[plugin])
    return found
