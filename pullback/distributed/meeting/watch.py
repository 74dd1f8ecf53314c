"""A rank's connection to the job's service: who has died, who has ended, who waits where.

Where mpiexec has started the ranks there is none, and nobody to ask.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import NoReturn

from pullback.core.process.alone import Servant
from pullback.distributed.meeting.pmi_service import notice_silence

__all__ = ["Watch", "current", "leave", "remove_shared_memory", "shared_memory", "tell"]

_of_process: Watch | None = None


def current() -> Watch | None:
    """The watch of this process; None where no service is there."""
    return _of_process


def tell(text: str) -> None:
    """A line on stderr, in one piece: other ranks write there too, and `print` writes in two."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class Watch:
    """What the service has told of the other ranks, and what it is told of this one."""

    def __init__(self, connection: socket.socket, rank: int) -> None:
        global _of_process
        self._connection, self._rank = connection, rank
        self.left: set[int] = set()
        self._here: list[int] | None = None
        self._changed = threading.Condition()
        self._ended = False
        notice_silence(connection)
        self._say(f"watch {rank}")
        atexit.register(self.bye)
        # In a child the copy would hide the end of this process, and say bye in its name.
        os.register_at_fork(after_in_child=self._forget)
        Servant(target=self._listen, name="watch over ranks", daemon=True).start()
        _of_process = self

    def _forget(self) -> None:
        global _of_process
        if _of_process is self:
            _of_process = None
        self._ended = True
        self._connection.close()

    def _say(self, text: str) -> None:
        try:
            self._connection.sendall(f"{text}\n".encode())
        except OSError:
            return  # the thread that listens finds out too, and has the words for it

    def bye(self) -> None:
        """This rank needs the others no more: its end is no death."""
        self._ended = True
        self._say("bye")

    def back(self) -> None:
        """This rank takes part again."""
        if self._ended:
            self._ended = False
            self._say("back")

    def waits(self, number: int, group: str) -> None:
        """This rank waits at a group's call."""
        self._say(f"waits {number} {group}")

    def missing(self, number: int, group: str, ranks: Sequence[int]) -> list[int]:
        """Which of these ranks do not wait at that call, as far as the service knows."""
        with self._changed:
            self._here = None
            self._say(f"who {number} {group}")
            self._changed.wait_for(lambda: self._here is not None, 1.0)
            here: list[int] = self._here or []
        return [rank for rank in ranks if rank not in here and rank != self._rank]

    def _listen(self) -> None:
        why = "has ended"
        try:
            with self._connection.makefile("r") as lines:
                for line in lines:
                    self._hear(line.split())
        except OSError:
            why = "does not answer any more: its host is stopped, or a link is cut"
        if not self._ended:
            tell(f"rank {self._rank}: the job's launcher or service {why}; the job is aborted.")
            leave()

    def _hear(self, words: list[str]) -> None:
        said, *rest = words
        if said == "left":
            self.left.add(int(rest[0]))
        elif said == "back":
            self.left.discard(int(rest[0]))
        elif said == "here":
            with self._changed:
                self._here = [int(rank) for rank in rest]
                self._changed.notify_all()
        elif said == "lost" and not self._ended:
            time.sleep(0.5)  # a failed rank may have told this one why
            why = f" ({' '.join(rest[1:])})" if rest[1:] else ""
            tell(f"rank {self._rank}: rank {rest[0]} is gone{why}; the job is aborted.")
            leave()


def shared_memory(pid: int | str) -> set[str]:
    """Files of shared memory that MPICH has open in a process."""
    try:
        with open(f"/proc/{pid}/maps") as maps:
            lines = [line.rstrip() for line in maps if "/dev/shm/mpich_shm_" in line]
    except OSError:
        return set()
    return {line.split()[-1] for line in lines if not line.endswith("(deleted)")}


def remove_shared_memory() -> None:
    """Remove the files by which ranks have met: what they have mapped stays theirs."""
    for path in shared_memory("self"):
        with contextlib.suppress(OSError):
            os.unlink(path)


def leave() -> NoReturn:
    """End this process, failed; what MPI would not remove then is removed."""
    remove_shared_memory()
    os._exit(1)
