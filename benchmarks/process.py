"""The parent's end of a worker: starting it, asking it, and noticing its death."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ONE_THREAD = {f"{pool}_NUM_THREADS": "1" for pool in ("OMP", "OPENBLAS", "MKL", "NUMEXPR")} | {
    "VECLIB_MAXIMUM_THREADS": "1"
}


class WorkError(Exception):
    """A work that could not be done; the text is for the table."""


class MissingError(WorkError):
    """The library lacks the names that a work needs."""


class Process:
    """One library in a process of its own, held to one thread unless `all_cores`."""

    def __init__(self, library: str, *, all_cores: bool = False) -> None:
        self.library = library
        # A file, not a pipe: nobody reads it while the worker runs, and a full pipe would stop it.
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed by close()
        self._child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", library],
            cwd=ROOT,
            env=child_environment(all_cores=all_cores),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def hold_to_one_processor(self) -> None:
        """The same for all that are held: what else the machine does slows each of them alike."""
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(self._child.pid, {max(os.sched_getaffinity(0))})

    def ask(self, do: str, **details: Any) -> dict[str, Any]:
        """Send a request and wait for its reply."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps({"do": do, **details}) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise WorkError(self._last_words()) from None
        line = self._child.stdout.readline()
        if not line:
            raise WorkError(self._last_words())
        reply: dict[str, Any] = json.loads(line)
        if "missing" in reply:
            raise MissingError(f"{self.library} has no {', '.join(reply['missing'])}")
        if "error" in reply:
            raise WorkError(f"{self.library}: {reply['error']}")
        return reply

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked again."""
        return self._child.poll() is None

    def _last_words(self) -> str:
        code = self._child.wait()
        self._errors.seek(0)
        last = self._errors.read().strip().rpartition("\n")[2]
        return f"the process of {self.library} ended with status {code}: {last}".rstrip(": ")

    def close(self) -> None:
        """Let the worker end, by having nothing more to say to it."""
        if self.is_alive and self._child.stdin is not None:
            self._child.stdin.close()
            try:
                self._child.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._child.kill()
        self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()
        self._errors.close()

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None and not issubclass(kind, WorkError):
            self._child.kill()  # interrupted in the middle of a work
        self.close()


def child_environment(*, all_cores: bool) -> dict[str, str]:
    """The environment of a worker; the same hash seed in all, so that dictionaries are alike."""
    limits = {} if all_cores else ONE_THREAD
    inherited = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
    return inherited | limits | {"PYTHONHASHSEED": "0"}


def is_installed(library: str) -> bool:
    """Whether the library can be found, without importing it here."""
    return importlib.util.find_spec(library) is not None
