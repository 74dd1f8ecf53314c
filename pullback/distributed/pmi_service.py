"""The PMI-1 service: plain text in which MPICH and its relatives learn of their peers.

`cmd=get kvsname=... key=...` and so on. Only addresses pass through it, MPI carries the data. It
runs in no rank's process, since starting MPI may hold Python's lock for long: in the launcher, or
as a process of its own; and it imports nothing of ours, so that it starts at once. Every job has
a fresh name: MPICH names its shared memory after it, and would stumble over what a killed job left.

Beside it each rank holds a second connection, on which nothing is said but `bye`: one that closes
without a word is that of a rank that died, and the others are told.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading

__all__ = ["Service", "listen"]

_PATIENCE = 300.0  # seconds in which all ranks must have come


class Service:
    """Keys and values of one job, its barriers, and who is still there."""

    def __init__(self, size: int, on_each_node: int = 0) -> None:
        self.size = size
        self.job = f"pullback_{os.getpid()}_{os.urandom(6).hex()}"
        self._values: dict[str, str] = {}
        if on_each_node:
            nodes = -(-size // on_each_node)
            self._values["PMI_process_mapping"] = f"(vector,(0,{nodes},{on_each_node}))"
        self._inside = 0
        self._round = 0
        self._changed = threading.Condition()
        self._lost: int | None = None  # the rank that died first
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
            if first.startswith("watch "):
                self._watch(int(first.split()[1]), connection, lines)
                return
            self._answer_all(first, connection, lines)

    def _watch(self, rank: int, connection: socket.socket, lines: object) -> None:
        """Wait for a rank's `bye`; if the connection ends without, tell the others."""
        with self._changed:
            self._watchers[rank] = connection
            if self._lost is not None:  # before this one came
                self._tell_loss(connection)
        said = ""
        with contextlib.suppress(OSError):
            said = lines.readline()  # type: ignore[attr-defined]  # a file of a socket
        with self._changed:
            del self._watchers[rank]
            if said.startswith("bye"):
                return
            if self._lost is None:
                self._lost = rank  # nobody waits for it any more
            self._changed.notify_all()
            for other in self._watchers.values():
                self._tell_loss(other)

    def _tell_loss(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.sendall(f"lost {self._lost}\n".encode())

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


def listen(size: int, host: str, port: int) -> socket.socket:
    """Where the ranks of a job will come; port 0 is any that is free."""
    return socket.create_server((host, port), backlog=min(2 * size, 1024))


def main() -> None:
    """Serve one job: `pmi_service.py SIZE ON_EACH_NODE HOST PORT`; prints the port."""
    size, on_each_node, host, port = sys.argv[1:5]
    listening = listen(int(size), host, int(port))
    print(listening.getsockname()[1], flush=True)
    sys.stdout.close()
    Service(int(size), int(on_each_node)).serve(listening)


if __name__ == "__main__":
    main()
