"""One change made in a copy of the tree, and the tests that should notice it."""

from __future__ import annotations

import compileall
import marshal
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutate import TESTS
from mutate.changes import Change
from mutate.covering import Map, search_path

# Beside the package and its tests, what tests of the repository read.
LEFT_BEHIND = {".git", ".venv", "build", "dist", ".mypy_cache", ".ruff_cache", ".hypothesis"}
PER_CHANGE = 20.0  # seconds of tests that come by a line, by what they took when recorded


@dataclass
class Outcome:
    """What became of a change: "killed", "survived", "nobody comes by", "endless", "equivalent"."""

    change: Change
    what: str
    tests: int
    seconds: float


class Copy:
    """A tree of its own, in which one file at a time differs."""

    def __init__(self, root: Path, at: Path) -> None:
        self.root, self.at = root, at
        if at.exists():
            shutil.rmtree(at)
        shutil.copytree(root, at, ignore=lambda folder, names: LEFT_BEHIND & set(names))
        # Compiled once; what is changed is never written, as a change within one second of the
        # last, of the same length, would be taken for it.
        compileall.compile_dir(str(at), quiet=2, workers=1)

    def tried(self, change: Change, tests: Sequence[str], limit: float) -> str:
        """Make the change, run the tests until one fails, take it back."""
        file = self.at / change.path
        text = (self.root / change.path).read_text(encoding="utf-8")
        for kept in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            kept.unlink()
        file.write_text(change.apply(text), encoding="utf-8")
        try:
            return self._run(tests, limit)
        finally:
            file.write_text(text, encoding="utf-8")

    def _run(self, tests: Sequence[str], limit: float) -> str:
        environment = {
            **os.environ,
            "PYTHONPATH": search_path(self.at),
            "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_CACHE_HOME": str(self.at / "kept-code"),
            "HYPOTHESIS_PROFILE": "ci",
        }
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        process = subprocess.Popen(
            command,
            cwd=self.at,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            return "endless"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return "survived" if code == 0 else "killed"


def mirrors(path: str, root: Path) -> list[str]:
    """The tests named after a file: `pullback/engine/loop.py`, `tests/engine/test_loop.py`."""
    file = Path(path)
    beside = Path("tests", *file.parts[1:-1])
    named = [beside / f"test_{file.stem}.py", beside / f"test_{file.stem}s.py"]
    return [one.as_posix() for one in named if (root / one).exists()]


def folder_of(path: str, root: Path) -> list[str]:
    """The folder of tests that mirrors the one of a file, if there is one."""
    folder = Path("tests", *Path(path).parts[1:-1])
    return [folder.as_posix()] if (root / folder).is_dir() and len(folder.parts) > 1 else []


def chosen_tests(change: Change, root: Path, known: Map) -> list[str]:
    """What mirrors the file, then what comes by the line, quickest first, until it takes long."""
    now = (root / change.path).read_text(encoding="utf-8").splitlines()
    named = [*mirrors(change.path, root), *known.unknown_files(root, TESTS)]
    chosen, total = [], 0.0
    for name in known.tests_of(change, now):
        total += known.seconds[name]
        if total > PER_CHANGE:
            break
        if not any(name.startswith(file + "::") for file in named):
            chosen.append(name)
    # Code that is interpreted, or runs in other processes, leaves no trace: then all that is near.
    return [*named, *chosen] or folder_of(change.path, root)


def same_code(change: Change, text: str) -> bool:
    """Whether Python compiles the changed text to what it compiled the old one to."""
    old, new = (compile(one, change.path, "exec") for one in (text, change.apply(text)))
    return marshal.dumps(old) == marshal.dumps(new)


def outcome_of(change: Change, copy: Copy, known: Map) -> Outcome:
    """Try one change."""
    began = time.monotonic()
    if same_code(change, (copy.root / change.path).read_text(encoding="utf-8")):
        return Outcome(change, "equivalent", 0, 0.0)
    tests = chosen_tests(change, copy.root, known)
    if not tests:
        return Outcome(change, "nobody comes by", 0, 0.0)
    what = copy.tried(change, tests, limit=60 + 4 * PER_CHANGE)
    return Outcome(change, what, len(tests), time.monotonic() - began)
