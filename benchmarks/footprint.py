"""What a library costs before it does anything: time to import it, bytes on disk."""

from __future__ import annotations

import importlib.metadata as metadata
import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.process import ROOT, MissingError, WorkError, child_environment


def import_times(libraries: list[str], rounds: int) -> dict[str, list[Cost]]:
    """What each import adds to a bare interpreter's start, round by round, in fresh processes."""
    times: dict[str, list[Cost]] = {library: [] for library in libraries}
    # Installing compiles to bytecode, a checkout may be forbidden to: here all find it alike.
    with tempfile.TemporaryDirectory() as bytecode:
        for library in libraries:
            start_python(f"import {library}", bytecode)  # untimed: compiles, fills caches
        for _ in range(rounds):
            bare = start_python("pass", bytecode)
            for library in libraries:
                cost = start_python(f"import {library}", bytecode)
                times[library].append(Cost(cost.processor - bare.processor, cost.wall - bare.wall))
    return times


class Cost(NamedTuple):
    """Seconds by two clocks."""

    processor: float
    wall: float


def start_python(statement: str, bytecode: str) -> Cost:
    """The cost of a fresh interpreter that runs one statement, with bytecode kept in a folder."""
    environment = child_environment(all_cores=False) | {"PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    processor, wall = children_seconds(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", statement],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    cost = Cost(children_seconds() - processor, time.perf_counter() - wall)
    if done.returncode:
        raise WorkError(f"`{statement}` failed: {done.stderr.strip().rpartition(chr(10))[2]}")
    return cost


def children_seconds() -> float:
    """Processor time of all child processes that have ended."""
    try:
        import resource
    except ImportError:
        raise MissingError("this system does not tell the processor time of a process") from None
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def installed_bytes(library: str) -> int:
    """Bytes of a library and of all that it requires, as installed here, without bytecode."""
    own = package_bytes(library)
    return own + sum(distribution_bytes(name) for name in requirements(library) - {library})


def package_bytes(library: str) -> int:
    """Bytes below the package's folder: an editable install has no list of files."""
    spec = importlib.util.find_spec(library)
    if spec is None or not spec.submodule_search_locations:
        raise WorkError(f"{library} is not a package on disk")
    folders = [Path(folder) for folder in spec.submodule_search_locations]
    return sum(file_bytes(path) for folder in folders for path in folder.rglob("*"))


def distribution_bytes(name: str) -> int:
    """Bytes of the files that an installed distribution lists."""
    listed = metadata.distribution(name).files or []
    return sum(file_bytes(Path(str(path.locate()))) for path in listed)


def file_bytes(path: Path) -> int:
    """The size of a file that was installed; bytecode was not."""
    return path.stat().st_size if path.is_file() and path.suffix != ".pyc" else 0


def requirements(library: str) -> set[str]:
    """The distributions that a library draws in, directly or not, as far as they are installed."""
    found: set[str] = set()
    waiting = [library]
    while waiting:
        name = waiting.pop()
        try:
            requires = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            if name == library:
                raise MissingError(f"{library} has no installed metadata") from None
            continue  # for another platform, so not part of what was installed
        found.add(name)
        waiting += {requirement_name(line) for line in requires if "extra ==" not in line} - found
    return found


def requirement_name(line: str) -> str:
    """`Jinja2>=3; python_version > "3"` is about `jinja2`."""
    match = re.match(r"[A-Za-z0-9._-]+", line)
    assert match, f"not a requirement: {line}"
    return re.sub(r"[-_.]+", "-", match[0]).lower()
