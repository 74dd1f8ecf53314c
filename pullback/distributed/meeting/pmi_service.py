"""The PMI-1 service: plain text in which MPICH and its relatives learn of their peers.

`cmd=get kvsname=... key=...` and so on. Only addresses pass through it, MPI carries the data. It
runs in no rank's process, since starting MPI may hold Python's lock for long: in the launcher, or
as a process of its own; and it imports nothing of ours, so that it starts at once. Every job has
a fresh name: MPICH names its shared memory after it, and would stumble over what a killed job left.

Beside it each rank holds a second connection, by which it is watched over. One that closes without
`bye` is that of a rank that died, one whose host answers no more that of a cut link or a stopped
machine: the others are told. They are told of a `bye` too, so that nobody waits for who has ended,
and can ask who is waiting at a call, and so who is not.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading

__all__ = ["SILENCE", "Service", "listen", "notice_silence"]

_PATIENCE = 300.0  # seconds in which all ranks must have come
SILENCE = 8  # seconds without an answer after which a host counts as lost


def notice_silence(connection: socket.socket) -> None:
    """Have the system ask the other host every two seconds, and fail when it does not answer.

    Systems answer one another, not programs: a rank that computes for long is not taken for dead.
    """
    if connection.family == socket.AF_UNIX:  # which has no link that could be cut
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}
    for name, value in {**options, "TCP_USER_TIMEOUT": 1000 * SILENCE}.items():
        if hasattr(socket, name):  # Linux has all, others some
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Service:
    """Keys and values of one job, its barriers, and who is still there."""

    def __init__(self, size: int, on_each_node: int = 0, mapping: str = "", word: str = "") -> None:
        self.size = size
        self._word = word  # by which ranks that look for this job at several places know it
        self.job = f"pullback_{os.getpid()}_{os.urandom(6).hex()}"
        self._values: dict[str, str] = {}
        if on_each_node:
            nodes = -(-size // on_each_node)
            mapping = mapping or f"(vector,(0,{nodes},{on_each_node}))"
        if mapping:
            self._values["PMI_process_mapping"] = mapping
        self._inside = 0
        self._round = 0
        self._changed = threading.Condition()
        self._lost: str | None = None  # the rank that died first, and what is known of it
        self._left: set[int] = set()  # ranks that have said bye
        self._waits: dict[int, tuple[str, int]] = {}  # at which group's which call a rank waits
        self._watchers: dict[int, socket.socket] = {}

    def serve(self, listening: socket.socket) -> None:
        """Answer all ranks until each has said that it ends, or is gone."""
        threads = []
        listening.settimeout(_PATIENCE)
        for _ in range(2 * self.size):
            try:
                connection, _ = listening.accept()
            except OSError:  # nobody came, or a launcher has no more ranks
                break
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._hear, args=(connection,), daemon=True)
            thread.start()
            threads.append(thread)
        listening.close()
        for thread in threads:
            thread.join()

    def _hear(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("r") as lines:
            first = lines.readline()
            if first.startswith("hello"):
                if first.split()[1:] != [self._word]:
                    return
                connection.sendall(b"hello\n")
                first = lines.readline()
            if first.startswith("watch "):
                self._watch(int(first.split()[1]), connection, lines)
                return
            self._answer_all(first, connection, lines)

    def _watch(self, rank: int, connection: socket.socket, lines: object) -> None:
        """Hear a rank until its connection ends; if it has said no `bye`, tell the others."""
        notice_silence(connection)
        host = _host(connection)  # one that is lost cannot be asked
        with self._changed:
            self._watchers[rank] = connection
            for left in sorted(self._left):
                _say(connection, f"left {left}")
            if self._lost is not None:  # before this one came
                _say(connection, f"lost {self._lost}")
        why = ""
        try:
            for line in lines:  # type: ignore[attr-defined]  # a file of a socket
                self._told(rank, line.split(), connection)
        except OSError:
            why = f" its host {host} does not answer: it is stopped, or a link is cut"
        with self._changed:
            del self._watchers[rank]
            if rank in self._left:
                return
            if self._lost is None:
                self._lost = f"{rank}{why}"  # nobody waits for it any more
            self._changed.notify_all()
            self._tell_all(f"lost {self._lost}")

    def _told(self, rank: int, words: list[str], connection: socket.socket) -> None:
        """A line of a rank: it goes, comes back, waits, or asks who waits at the same call."""
        said, *rest = words
        with self._changed:
            if said == "bye":
                self._left.add(rank)
                self._tell_all(f"left {rank}")
            elif said == "back":
                self._left.discard(rank)
                self._tell_all(f"back {rank}")
            elif said == "waits":
                self._waits[rank] = " ".join(rest[1:]), int(rest[0])
            elif said == "who":
                group, number = " ".join(rest[1:]), int(rest[0])
                here = [r for r, (g, n) in self._waits.items() if g == group and n >= number]
                _say(connection, " ".join(["here", *map(str, sorted(here))]))

    def _tell_all(self, text: str) -> None:
        for connection in self._watchers.values():
            _say(connection, text)

    def _answer_all(self, line: str, connection: socket.socket, lines: object) -> None:
        while line:
            words = dict(word.split("=", 1) for word in line.split() if "=" in word)
            connection.sendall(f"{self._answer(words)}\n".encode())
            if words.get("cmd") == "finalize":
                return
            line = lines.readline()  # type: ignore[attr-defined]  # a file of a socket

    def _answer(self, words: dict[str, str]) -> str:
        command = words.get("cmd", "")
        fixed = {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=256 vallen_max=1024 rc=0",
            "get_appnum": "cmd=appnum appnum=0 rc=0",
            "get_my_kvsname": f"cmd=my_kvsname kvsname={self.job} rc=0",
            "get_universe_size": f"cmd=universe_size size={self.size} rc=0",
            "finalize": "cmd=finalize_ack rc=0",
        }
        if command in fixed:
            return fixed[command]
        if command == "put":
            with self._changed:
                self._values[words["key"]] = words["value"]
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            with self._changed:
                value = self._values.get(words["key"])
            if value is None:
                return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
            return f"cmd=get_result rc=0 msg=success value={value}"
        if command == "barrier_in":
            return f"cmd=barrier_out rc={self._barrier()}"
        return f"cmd={command}_result rc=-1 msg=unknown_command"

    def _barrier(self) -> int:
        with self._changed:
            mine = self._round
            self._inside += 1
            if self._inside == self.size:
                self._inside, self._round = 0, self._round + 1
                self._changed.notify_all()
            while mine == self._round and self._lost is None:
                self._changed.wait()
            return 0 if mine != self._round else -1


def _say(connection: socket.socket, text: str) -> None:
    with contextlib.suppress(OSError):
        connection.sendall(f"{text}\n".encode())


def _host(connection: socket.socket) -> str:
    return "here" if connection.family == socket.AF_UNIX else str(connection.getpeername()[0])


def listen(size: int, host: str, port: int) -> socket.socket:
    """Where the ranks of a job will come; port 0 is any that is free."""
    return socket.create_server((host, port), backlog=min(2 * size, 1024))


def main() -> None:
    """Serve one job: `SIZE ON_EACH_NODE HOST PORT [MAPPING WORD]`; prints the port."""
    size, on_each_node, host, port, *more = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its ranks, however those end
    listening = listen(int(size), host, int(port))
    print(listening.getsockname()[1], flush=True)
    sys.stdout.close()
    Service(int(size), int(on_each_node), *more).serve(listening)


if __name__ == "__main__":
    main()
