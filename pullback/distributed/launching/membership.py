"""Who takes part in a job of `--nnodes LEAST:MOST`: machines come and go between its attempts.

One launcher, whose machine the endpoint names, keeps the list; all, itself too, are its members by
a connection on which lines of JSON pass. When enough have come, each is told its share of ranks. A
failure, a machine that is lost, or one more that has come ends the attempt everywhere, and the
next begins with who is there then. MPI is begun anew by each attempt.
"""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
import time
from typing import Any

from pullback.distributed.launching.job import Share
from pullback.distributed.meeting import hosts
from pullback.distributed.meeting.pmi_service import notice_silence

__all__ = ["Ended", "Keeper", "Member", "keeper_at"]


_GOOD_BYE = 5.0  # seconds in which members hang up that were told that the job is over


class Ended(Exception):  # noqa: N818 (how a job ends is no error)
    """The job is over, with this status."""

    def __init__(self, status: int, why: str = "") -> None:
        super().__init__(status, why)
        self.status, self.why = status, why


def keeper_at(host: str, port: int, **options: Any) -> Keeper | None:
    """The list, if it is to be kept on this machine and nobody keeps it yet."""
    found = socket.gethostbyname(host)
    if not found.startswith("127.") and found not in hosts.addresses():
        return None
    try:
        listening = socket.create_server(
            ("", port) if not found.startswith("127.") else (host, port)
        )
    except OSError:
        return None
    return Keeper(listening, host, **options)


class _Line:
    """One end of a connection: whole lines of JSON."""

    def __init__(self, connection: socket.socket) -> None:
        notice_silence(connection)
        self._connection = connection
        self._lock = threading.Lock()

    def put(self, **message: Any) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._connection.sendall((json.dumps(message) + "\n").encode())

    def messages(self) -> Any:
        with contextlib.suppress(OSError), self._connection.makefile("r") as lines:
            for line in lines:
                yield json.loads(line)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class _Node:
    """A member, as the keeper sees it."""

    def __init__(self, line: _Line) -> None:
        self.line = line
        self.here = 0
        self.machine = ""
        self.is_first = False  # the keeper's own: others meet on its machine
        self.state = "new"  # then ready, running, done


class Keeper:
    """The list of members, and the rounds in which they run."""

    def __init__(
        self,
        listening: socket.socket,
        host: str,
        *,
        least: int,
        most: int,
        restarts: int,
        last_call: float,
        patience: float,
    ) -> None:
        self.host, self.port = host, int(listening.getsockname()[1])
        self._least, self._most = least, most
        self._restarts, self._last_call, self._patience = restarts, last_call, patience
        self._listening = listening
        self._nodes: list[_Node] = []
        self._events: queue.SimpleQueue[tuple[_Node | None, dict[str, Any]]] = queue.SimpleQueue()
        self._attempt = 0
        self._over = False
        self._since: float | None = None  # since when there are enough
        self._waiting_since = time.monotonic()
        self.own_word = hosts.identity() + str(id(self))  # by which our own member is known
        for act in (self._accept, self._keep):
            threading.Thread(target=act, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            node = _Node(_Line(connection))
            threading.Thread(target=self._hear, args=(node,), daemon=True).start()

    def _hear(self, node: _Node) -> None:
        for message in node.line.messages():
            self._events.put((node, message))
        node.line.close()
        self._events.put((node, {"gone": True}))

    def close(self) -> None:
        """Keep no list any more; members that were told of the end have heard it."""
        until = time.monotonic() + _GOOD_BYE
        while self._over and self._nodes and time.monotonic() < until:
            time.sleep(0.01)
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._events.put((None, {}))

    def _keep(self) -> None:
        while True:
            try:
                node, message = self._events.get(timeout=0.05)
            except queue.Empty:
                node, message = None, {"tick": True}
            if not message:
                return
            if self._over:
                if node in self._nodes and "gone" in message:
                    self._nodes.remove(node)
                continue
            if node is not None:
                self._heard(node, message)
            self._begin_if_complete()

    def _running(self) -> list[_Node]:
        return [node for node in self._nodes if node.state in ("running", "done")]

    def _heard(self, node: _Node, message: dict[str, Any]) -> None:
        if "join" in message:
            node.here, node.machine = message["join"], message["machine"]
            node.is_first = message.get("word") == self.own_word
            node.state = "ready"
            if node not in self._nodes:
                self._nodes.append(node)
                if self._running() and len(self._nodes) <= self._most:
                    self._stop("another machine has come")
        elif "gone" in message:
            was = node.state
            if node in self._nodes:
                self._nodes.remove(node)
            if was == "running":
                self._again(1, "a machine is gone")
        elif message.get("status") == 0:
            node.state = "done"
            if all(one.state == "done" for one in self._running()):
                self._end(0, "")
        elif "status" in message and node.state == "running":
            self._again(message["status"], "a rank has failed")

    def _again(self, status: int, why: str) -> None:
        if self._restarts == 0:
            self._end(status, why)
            return
        self._restarts -= 1
        self._stop(why)

    def _stop(self, why: str) -> None:
        """End the attempt; members come again by themselves."""
        self._since, self._waiting_since = None, time.monotonic()
        for node in self._running():
            node.state = "new"
            node.line.put(stop=why)

    def _end(self, status: int, why: str) -> None:
        self._over = True
        for node in self._nodes:
            node.line.put(end=status, why=why)

    def _begin_if_complete(self) -> None:
        if self._running() or any(node.state == "new" for node in self._nodes):
            return
        first = [node for node in self._nodes if node.is_first]
        ready = [*first, *(node for node in self._nodes if not node.is_first)][: self._most]
        now = time.monotonic()
        if len(ready) < self._least or not first:
            self._since = None
            if now - self._waiting_since > self._patience:
                self._end(1, f"{len(ready)} of {self._least} machines have come")
            return
        self._since = now if self._since is None else self._since
        if len(ready) == self._most or now - self._since >= self._last_call:
            self._begin(ready)

    def _begin(self, nodes: list[_Node]) -> None:
        size = sum(node.here for node in nodes)
        machines = [node.machine for node in nodes for _ in range(node.here)]
        ports = _free_ports(2)
        start = 0
        for number, node in enumerate(nodes):
            share = (number, len(nodes), node.here, start, size, self.host, *ports)
            node.state = "running"
            node.line.put(share=[*share, hosts.mapping(machines)], attempt=self._attempt)
            start += node.here
        self._attempt += 1


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as opened:
        found = [opened.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in found]


class Member:
    """A launcher in the keeper's list."""

    def __init__(self, host: str, port: int, here: int, patience: float, word: str = "") -> None:
        self._here, self._word = here, word
        self._line = _Line(_connected(host, port, patience))
        self._heard: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._end: Ended | None = None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for message in self._line.messages():
            self._heard.put(message)
        self._heard.put({"end": 1, "why": "the machine that keeps the list of members is gone"})

    def next_share(self) -> tuple[Share, int]:
        """Come to the next attempt: its ranks here, and its number; `Ended` where there is none."""
        self._line.put(join=self._here, machine=hosts.identity(), word=self._word)
        while True:
            message = self._next()
            if "share" in message:
                return Share(*message["share"]), message["attempt"]

    def _next(self) -> dict[str, Any]:
        """What the keeper says next; the end, once it was said, for good."""
        if self._end is None:
            message = self._heard.get()
            if "end" not in message:
                return message
            self._end = Ended(message["end"], message["why"])
        raise self._end

    def disturbed(self) -> bool:
        """Whether the attempt is to end for others' sake."""
        try:
            message = self._heard.get_nowait()
        except queue.Empty:
            return False
        if "end" in message:
            self._end = Ended(message["end"], message["why"])
        return True

    def report(self, status: int) -> None:
        """Say how the ranks here have ended, and wait for what follows: an attempt, or the end."""
        self._line.put(status=status)
        self._next()

    def close(self) -> None:
        """Leave the list."""
        self._line.close()


def _connected(host: str, port: int, patience: float) -> socket.socket:
    until = time.monotonic() + patience
    while True:
        try:
            made = socket.create_connection((host, port), timeout=5.0)
        except OSError:
            if time.monotonic() > until:
                raise SystemExit(
                    f"pullback launch: nobody keeps a list of members at {host}:{port}."
                ) from None
            time.sleep(0.05)
        else:
            made.settimeout(None)
            return made
