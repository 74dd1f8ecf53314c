"""Tasks in child processes: what they give, or that they gave nothing."""

from __future__ import annotations

import os
import pickle
import select
import signal
import time
from collections.abc import Callable
from typing import Any

STUCK = 20.0  # seconds for a program that takes milliseconds


def in_a_fork(task: Callable[[], Any], seconds: float | None = None) -> Any:
    """What a task gives in a child process; the text 'stuck' or 'died' if it gives nothing."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(task(), pipe)
        finally:
            os._exit(0)
    os.close(writing)
    return answer(child, reading, seconds)


def answer(child: int, reading: int, seconds: float | None = None) -> Any:
    """What a child writes into its end of a pipe."""
    content, end = b"", time.monotonic() + (STUCK if seconds is None else seconds)
    with os.fdopen(reading, "rb") as pipe:
        while select.select([pipe], [], [], max(end - time.monotonic(), 0))[0]:
            if not (more := os.read(pipe.fileno(), 1 << 20)):
                break
            content += more
        else:
            os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if time.monotonic() > end:
        return "stuck"
    return pickle.loads(content) if content else "died"
