"""Where the lines of ranks go: to the terminal, to files (`--redirects`), or both (`--tee`)."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Any

__all__ = ["Outputs", "streams"]

_STREAMS = {"stdout": 1, "stderr": 2}  # bits of the numbers that the flags take


def streams(given: str, flag: str) -> dict[int | None, int]:
    """Which streams of which ranks: `3`, or `0:1,1:2`; by local rank, or None for all."""
    if not re.fullmatch(r"(\d+:)?[0-3](,(\d+:)?[0-3])*", given):
        raise SystemExit(
            f"pullback launch: {flag} takes 0, 1 (stdout), 2 (stderr) or 3 (both), or such numbers "
            f"by local rank as in 0:1,1:3; got {given!r}."
        )
    parts = [part.rpartition(":") for part in given.split(",")]
    return {int(local) if colon else None: int(bits) for local, colon, bits in parts}


class Outputs:
    """The outputs of one attempt's ranks."""

    def __init__(self, options: Any, first: int, attempt: int) -> None:
        self._redirects = streams(options.redirects, "--redirects")
        self._tee = streams(options.tee, "--tee")
        self._first, self._role = first, options.role
        self._plain = options.log_dir
        self._shown = options.local_ranks_filter
        self._piped: list[tuple[int, str]] = []
        self._threads: list[threading.Thread] = []
        self._folder = ""
        if any((*self._redirects.values(), *self._tee.values())):
            above = options.log_dir or tempfile.mkdtemp(prefix="pullback_launch_")
            self._folder = os.path.join(above, options.rdzv_id, f"attempt_{attempt}")
            self._plain = None

    def _wanted(self, table: dict[int | None, int], local: int, stream: str) -> bool:
        return bool(table.get(local, table.get(None, 0)) & _STREAMS[stream])

    def _file(self, local: int, stream: str) -> str:
        folder = os.path.join(self._folder, str(local))
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, f"{stream}.log")

    @contextlib.contextmanager
    def of(self, local: int) -> Iterator[dict[str, Any]]:
        """What a rank's process is started with."""
        given: dict[str, Any] = {}
        with contextlib.ExitStack() as opened:
            if self._plain:
                os.makedirs(self._plain, exist_ok=True)
                path = os.path.join(self._plain, f"rank_{self._first + local}.log")
                yield {
                    "stdout": opened.enter_context(open(path, "wb")),
                    "stderr": subprocess.STDOUT,
                }
                return
            for stream in _STREAMS:
                if self._wanted(self._tee, local, stream):
                    given[stream] = subprocess.PIPE
                    self._piped.append((local, stream))
                elif self._wanted(self._redirects, local, stream):
                    given[stream] = opened.enter_context(open(self._file(local, stream), "wb"))
                elif self._shown and str(local) not in self._shown.split(","):
                    given[stream] = subprocess.DEVNULL
            yield given

    def begin(self, ranks: Sequence[subprocess.Popen[Any]]) -> None:
        """Take what comes through pipes to files and to the terminal."""
        for local, stream in self._piped:
            given = (getattr(ranks[local], stream), local, stream)
            thread = threading.Thread(target=self._copy, args=given, daemon=True)
            thread.start()
            self._threads.append(thread)

    def _copy(self, lines: Any, local: int, stream: str) -> None:
        start = f"[{self._role}{self._first + local}]:".encode()
        shown = not self._shown or str(local) in self._shown.split(",")
        terminal = getattr(sys, stream)
        with lines, open(self._file(local, stream), "wb", buffering=0) as file:
            for line in lines:
                file.write(line)
                if shown:
                    terminal.write((start + line).decode(errors="replace"))
                    terminal.flush()

    def end(self) -> None:
        """Wait for what is still on its way; a child of a rank may keep its pipe for longer."""
        for thread in self._threads:
            thread.join(1.0)
