"""The PMI-1 service: plain text in which MPICH and its relatives learn of their peers.

`cmd=get kvsname=... key=...` and so on. Only addresses pass through it, MPI carries the data. It
runs as a process of its own, since starting MPI may hold Python's lock for long, and imports
nothing of ours, so that it starts at once. Every job has a fresh name: MPICH names its shared
memory after it, and would stumble over what a killed job left.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
import threading

__all__ = ["Service"]

_PATIENCE = 300.0  # seconds in which all ranks must have come


class Service:
    """Keys and values of one job, and its barriers."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.job = f"pullback_{os.getpid()}_{secrets.token_hex(6)}"
        self._values: dict[str, str] = {}
        self._inside = 0
        self._round = 0
        self._changed = threading.Condition()
        self._lost = False

    def serve(self, listening: socket.socket) -> None:
        """Answer all ranks until each has said that it ends, or is gone."""
        threads = []
        listening.settimeout(_PATIENCE)
        for _ in range(self.size):
            connection, _ = listening.accept()
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._answer_all, args=(connection,), daemon=True)
            thread.start()
            threads.append(thread)
        listening.close()
        for thread in threads:
            thread.join()

    def _answer_all(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("r") as lines:
            for line in lines:
                words = dict(word.split("=", 1) for word in line.split() if "=" in word)
                answer = self._answer(words)
                connection.sendall(f"{answer}\n".encode())
                if words.get("cmd") == "finalize":
                    return
        with self._changed:  # it went without a word: nobody waits for it any more
            self._lost = True
            self._changed.notify_all()

    def _answer(self, words: dict[str, str]) -> str:
        command = words.get("cmd", "")
        if command == "init":
            return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
        if command == "get_maxes":
            return "cmd=maxes kvsname_max=256 keylen_max=256 vallen_max=1024 rc=0"
        if command == "get_appnum":
            return "cmd=appnum appnum=0 rc=0"
        if command == "get_my_kvsname":
            return f"cmd=my_kvsname kvsname={self.job} rc=0"
        if command == "get_universe_size":
            return f"cmd=universe_size size={self.size} rc=0"
        if command == "put":
            with self._changed:
                self._values[words["key"]] = words["value"]
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            return self._get(words["key"])
        if command == "barrier_in":
            return f"cmd=barrier_out rc={self._barrier()}"
        if command == "finalize":
            return "cmd=finalize_ack rc=0"
        return f"cmd={command}_result rc=-1 msg=unknown_command"

    def _get(self, key: str) -> str:
        with self._changed:
            if key in self._values:
                return f"cmd=get_result rc=0 msg=success value={self._values[key]}"
        return "cmd=get_result rc=-1 msg=key_not_found value=unknown"

    def _barrier(self) -> int:
        with self._changed:
            mine = self._round
            self._inside += 1
            if self._inside == self.size:
                self._inside, self._round = 0, self._round + 1
                self._changed.notify_all()
            while mine == self._round and not self._lost:
                self._changed.wait()
            return 0 if mine != self._round else -1


def main() -> None:
    """Serve one job: `pmi.py SIZE HOST PORT`; prints the port."""
    size, host, port = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    listening = socket.create_server((host, port), backlog=min(size, 1024))
    print(listening.getsockname()[1], flush=True)
    sys.stdout.close()
    Service(size).serve(listening)


if __name__ == "__main__":
    main()
