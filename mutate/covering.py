"""Which tests come by a line: recorded once by coverage.py, and kept."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mutate import LEFT_OUT
from mutate.changes import Change


@dataclass
class Map:
    """For each file its lines as they were, and the tests by line; how long each test takes."""

    lines: dict[str, list[str]]
    tests: dict[str, dict[int, list[str]]]
    seconds: dict[str, float]

    def tests_of(self, change: Change, now: Sequence[str]) -> list[str]:
        """The tests that come by a change of the file as it is now, the quickest first.

        What runs when a module is imported is everybody's who comes by the file at all.
        """
        by_line = self.tests.get(change.path, {})
        if change.statement is None:
            names = {name for names in by_line.values() for name in names}
        else:
            first, last = change.statement
            names = set(self._at(change.path, now, change.line))
            for line in range(first, last + 1):
                if names:
                    break
                names.update(self._at(change.path, now, line))
        found = [name for name in names if name in self.seconds]
        return sorted(found, key=lambda name: (self.seconds[name], name))

    def _at(self, path: str, now: Sequence[str], line: int) -> list[str]:
        before = self.lines.get(path, [])
        at = line if before == list(now) else _line_before(before, now, line)
        return self.tests.get(path, {}).get(at or 0, [])

    def unknown_files(self, root: Path, folders: Sequence[str]) -> list[str]:
        """Small files of tests that were written since, which may be about any line.

        Of folders that were recorded: a map of a few leaves the others out.
        """
        known = {name.partition("::")[0] for name in self.seconds}
        found = [
            path.relative_to(root).as_posix()
            for folder in folders
            if any(name.startswith(folder + "/") for name in known)
            for path in sorted((root / folder).rglob("test_*.py"))
        ]
        left_out = tuple(LEFT_OUT)
        return [path for path in found if path not in known and not path.startswith(left_out)]

    def write(self, file: Path) -> None:
        """Keep it."""
        file.write_text(json.dumps(vars(self)), encoding="utf-8")

    @classmethod
    def read(cls, file: Path) -> Map:
        """What was kept."""
        held = json.loads(file.read_text(encoding="utf-8"))
        tests = {
            path: {int(line): names for line, names in by_line.items()}
            for path, by_line in held["tests"].items()
        }
        return cls(held["lines"], tests, held["seconds"])


def _line_before(before: Sequence[str], now: Sequence[str], line: int) -> int | None:
    """Where a line of today was when the map was made, or the nearest before it."""
    matched = difflib.SequenceMatcher(None, before, list(now), autojunk=False)
    for tag, i, j, k, end in matched.get_opcodes():
        if k < line <= end:
            return i + (line - k) if tag == "equal" else max(1, min(j, i + line - k))
    return None


def search_path(tree: Path) -> str:
    """The tree before whatever else PYTHONPATH says."""
    return os.pathsep.join(filter(None, [str(tree), os.environ.get("PYTHONPATH")]))


def record(root: Path, sources: Sequence[str], tests: Sequence[str], data: Path) -> Map:
    """Run the tests once under coverage.py."""
    folders = [str(root / source) for source in sources]
    environment = {
        **os.environ,
        "PYTHONPATH": search_path(root),
        "MUTATE_DATA": str(data),
        "MUTATE_SOURCES": os.pathsep.join(folders),
        "COVERAGE_CORE": "ctrace",  # the one that tells tests apart
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutate.recording"]
    command += ["-p", "no:cacheprovider", "-W", "ignore::coverage.exceptions.CoverageWarning"]
    command += ["--ignore=" + left for left in LEFT_OUT if (root / left).exists()]
    code = subprocess.run([*command, *tests], cwd=root, env=environment, check=False).returncode
    if code not in (0, 1):  # a test that fails is left out of the map
        raise RuntimeError(f"The tests could not be recorded: pytest ended with {code}.")
    return _read_data(root, data)


def _read_data(root: Path, data: Path) -> Map:
    from coverage import CoverageData

    found = CoverageData(basename=str(data))
    found.read()
    lines, tests = {}, {}
    for name in sorted(found.measured_files()):
        path = Path(name).relative_to(root).as_posix()
        lines[path] = Path(name).read_text(encoding="utf-8").splitlines()
        by_line = found.contexts_by_lineno(name)
        tests[path] = {line: sorted(set(names) - {""}) for line, names in by_line.items()}
    seconds = json.loads(Path(str(data) + ".seconds").read_text(encoding="utf-8"))
    return Map(lines, tests, seconds)
