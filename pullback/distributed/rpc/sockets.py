"""Requests between processes, over sockets: one connection for each pair that has talked.

A worker asks on the connection that it has opened, and is answered there. A connection that ends
without a good-bye is a death, which fails what was asked of that worker at once. The bytes are
pickles: for trusted networks only, though nobody is listened to who does not know the job's secret.
"""

from __future__ import annotations

import contextlib
import hmac
import itertools
import pickle
import socket
import struct
import threading
from typing import Any

from pullback.distributed.errors import DistNetworkError
from pullback.distributed.meeting.pmi_service import notice_silence
from pullback.distributed.rpc.agent import Agent, Peer, Request, WorkerInfo
from pullback.futures import Future

__all__ = ["Door", "SocketPeer"]

_HEAD = struct.Struct("!QQ")  # the bytes of the pickle, and how many arrays travel beside it
_SIZE = struct.Struct("!Q")
_BYE = -1  # in place of a request's number


class _Line:
    """One connection: whole messages, from any thread."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        notice_silence(connection)
        self._connection = connection
        self._sending = threading.Lock()

    def put(self, message: Any) -> None:
        """Send a message; what cannot be pickled is an error before anything is sent."""
        beside: list[pickle.PickleBuffer] = []
        data = pickle.dumps(message, protocol=5, buffer_callback=beside.append)
        raws = [one.raw() for one in beside]
        head = _HEAD.pack(len(data), len(raws)) + b"".join(_SIZE.pack(len(one)) for one in raws)
        with self._sending:
            self._connection.sendall(head + data)
            for raw in raws:
                self._connection.sendall(raw)

    def get(self) -> Any:
        """The next message; EOFError or OSError when there is none to come."""
        size, count = _HEAD.unpack(self._exactly(_HEAD.size))
        sizes = [_SIZE.unpack(self._exactly(_SIZE.size))[0] for _ in range(count)]
        data = self._exactly(size)
        return pickle.loads(data, buffers=[self._exactly(one) for one in sizes])

    def put_secret(self, secret: bytes) -> None:
        """The first that is said, before any pickle."""
        self._connection.sendall(_SIZE.pack(len(secret)) + secret)

    def get_secret(self, longest: int) -> bytes:
        """The first that is heard."""
        (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
        return bytes(self._exactly(size)) if size <= longest else b""

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        place = memoryview(data)
        while place:
            count = self._connection.recv_into(place)
            if not count:
                raise EOFError
            place = place[count:]
        return data

    def close(self) -> None:
        """Hang up."""
        with contextlib.suppress(OSError):  # wakes the thread that reads
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class SocketPeer(Peer):
    """A worker in another process."""

    def __init__(
        self, info: WorkerInfo, address: tuple[str, int], agent: Agent, secret: bytes
    ) -> None:
        super().__init__(info)
        self._address, self._agent, self._secret = address, agent, secret
        self._lock = threading.Lock()
        self._line: _Line | None = None
        self._numbers = itertools.count()
        self._asked: dict[int, Future[Any]] = {}
        self._gone: str | None = None

    def ask(self, request: Request, future: Future[Any]) -> None:
        """Send a request, over the connection that the first of them opens."""
        number = next(self._numbers)
        with self._lock:
            if self._gone is not None:
                raise RuntimeError(f"worker {self.info.name!r} is gone: {self._gone}.")
            line = self._line or self._connect()
            self._asked[number] = future
        try:
            line.put((number, request))
        except OSError as error:
            self.lost(f"its connection broke ({error})")
        except BaseException:
            self._asked.pop(number, None)
            raise

    def _connect(self) -> _Line:
        try:
            connection = socket.create_connection(self._address, self._agent.timeout or None)
        except OSError as error:
            self._gone = f"nothing answers at {self._address[0]}:{self._address[1]} ({error})"
            raise RuntimeError(f"worker {self.info.name!r} is gone: {self._gone}.") from error
        connection.settimeout(None)
        line = self._line = _Line(connection)
        line.put_secret(self._secret)
        line.put(self._agent.info)
        threading.Thread(target=self._read, args=(line,), daemon=True).start()
        return line

    def _read(self, line: _Line) -> None:
        try:
            while True:
                number, well, value = line.get()
                future = self._asked.pop(number, None)
                if future is not None:
                    self._agent.settle(future, well, value)
                del future, value
        except (EOFError, OSError):
            self.lost("its connection ended")
        except Exception as error:  # an answer that cannot be read here
            self.lost(f"its answer cannot be read ({type(error).__name__}: {error})")

    def lost(self, reason: str) -> None:
        """The worker is dead: everything that was asked of it fails."""
        with self._lock:
            if self._gone is not None:
                return
            self._gone = reason
            asked, self._asked = self._asked, {}
            line = self._line
        if line is not None:
            line.close()
        told = f"worker {self.info.name!r} died: {reason}"
        for future in asked.values():
            with contextlib.suppress(RuntimeError):  # settled in this moment
                future.set_exception(RuntimeError(f"{told}."))
        if self._agent.directory.meetings is not None:
            self._agent.directory.meetings.died(self.info.id, told)

    def close(self) -> None:
        """Say good-bye, so that the end of the connection is no death."""
        with self._lock:
            line, self._line = self._line, None
            self._gone = self._gone or "this worker has shut down"
            asked, self._asked = self._asked, {}
        if line is not None:
            with contextlib.suppress(OSError):
                line.put((_BYE, None))
            line.close()
        for future in asked.values():
            with contextlib.suppress(RuntimeError):
                future.set_exception(RuntimeError("rpc: this worker has shut down."))


class Door:
    """Where the others connect to: every connection is served by a thread that reads it."""

    def __init__(self, host: str, secret: bytes) -> None:
        self._secret = secret
        self._agent: Agent | None = None
        self._lines: set[_Line] = set()
        self._lock = threading.Lock()
        try:
            self._listening = socket.create_server((host, 0), backlog=128)
        except OSError as error:
            raise DistNetworkError(f"rpc: cannot listen at {host or 'any address'}.") from error
        self.port: int = self._listening.getsockname()[1]

    def open(self, agent: Agent) -> None:
        """Begin to serve."""
        self._agent = agent
        threading.Thread(target=self._welcome, daemon=True).start()

    def _welcome(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(_Line(connection),), daemon=True).start()

    def _serve(self, line: _Line) -> None:
        agent = self._agent
        assert agent is not None
        sender: WorkerInfo | None = None
        with self._lock:
            self._lines.add(line)
        try:
            if not hmac.compare_digest(line.get_secret(len(self._secret)), self._secret):
                return
            sender = line.get()
            while True:
                number, request = line.get()
                if number == _BYE:
                    return
                self._take(agent, line, number, request)
                del request
        except (EOFError, OSError):
            self._lost(agent, sender, "its connection ended")
        except Exception as error:
            self._lost(agent, sender, f"what it sent cannot be read ({error})")
        finally:
            with self._lock:
                self._lines.discard(line)
            line.close()

    def _lost(self, agent: Agent, sender: WorkerInfo | None, reason: str) -> None:
        if sender is not None and agent.gone is None:
            peer: Any = agent.directory.by_id.get(sender.id)
            if isinstance(peer, SocketPeer):
                peer.lost(reason)

    def _take(self, agent: Agent, line: _Line, number: int, request: Request) -> None:
        future: Future[Any] = Future()
        future._when_done(lambda done: _reply(line, number, done))
        try:
            agent.accept(request, future)
        except Exception as error:
            if not future.done():
                future.set_exception(error)

    def close(self) -> None:
        """Serve nobody any more."""
        self._listening.close()
        with self._lock:
            lines = list(self._lines)
        for line in lines:
            line.close()


def _reply(line: _Line, number: int, done: Future[Any]) -> None:
    error = done._error
    answer = (number, True, done._result) if error is None else (number, False, portable(error))
    try:
        line.put(answer)
    except OSError:
        return  # nobody waits for it any more
    except Exception as unsent:
        line.put((number, False, portable(unsent)))


def portable(error: BaseException) -> BaseException:
    """An error that survives pickling: itself, or a RuntimeError that tells of it."""
    try:
        copy = pickle.loads(pickle.dumps(error))
        if type(copy) is type(error):
            return error
    except Exception:
        pass
    told = RuntimeError(f"{type(error).__name__}: {error}")
    told.__dict__.update({k: v for k, v in error.__dict__.items() if k in _TOLD})
    return told


_TOLD = ("__notes__", "_pullback_worker")
