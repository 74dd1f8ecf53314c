"""Stores: keys and values that ranks share before, or beside, their collectives."""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from pullback.core.process.alone import Servant
from pullback.distributed.errors import DistNetworkError, DistStoreError, QueueEmptyError
from pullback.distributed.group import in_seconds
from pullback.distributed.meeting.pmi_service import notice_silence

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]

T = TypeVar("T")

_POLL = 0.01


def _as_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class Store:
    """What every store can do; each keeps its dict somewhere else (`_change`).

    >>> from pullback.distributed import HashStore
    >>> store = HashStore()
    >>> store.set("state", "waiting")
    >>> store.compare_set("state", "waiting", "running")
    b'running'
    >>> store.check(["state"]), store.delete_key("state"), store.num_keys()
    (True, True, 0)
    """

    def __init__(self) -> None:
        self._limit = 300.0

    def _change(self, act: Callable[[dict[str, bytes]], T]) -> T:
        """Run `act` on the dict while nobody else can."""
        raise NotImplementedError

    @property
    def timeout(self) -> timedelta:
        """How long `get` and `wait` wait for a key."""
        return timedelta(seconds=self._limit)

    def set_timeout(self, timeout: Any) -> None:
        """Say how long `get` and `wait` wait for a key."""
        self._limit = in_seconds(timeout, self._limit)

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        data = _as_bytes(value)
        self._change(lambda values: values.__setitem__(key, data))

    def get(self, key: str) -> bytes:
        """The value of a key, when it is there."""
        self.wait([key])
        return self._change(lambda values: values[key])

    def add(self, key: str, amount: int) -> int:
        """Add to a number, from 0 on; what it is then."""

        def act(values: dict[str, bytes]) -> int:
            total = int(values.get(key, b"0")) + amount
            values[key] = str(total).encode()
            return total

        return self._change(act)

    def append(self, key: str, value: Any) -> None:
        """Add to the end of a value."""
        data = _as_bytes(value)
        self._change(lambda values: values.__setitem__(key, values.get(key, b"") + data))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Replace a value if it is the expected one (or none, and "" is); what is there then."""
        expected, desired = _as_bytes(expected_value), _as_bytes(desired_value)

        def act(values: dict[str, bytes]) -> bytes:
            known = values.get(key)
            if known == expected or (known is None and not expected):
                values[key] = desired
            return values.get(key, expected)

        return self._change(act)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        names = list(keys)
        return self._change(lambda values: all(name in values for name in names))

    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        """Wait until all keys are there."""
        limit = in_seconds(timeout, self._limit)
        until = time.monotonic() + limit
        while not self.check(keys):
            if time.monotonic() > until:
                raise DistStoreError(f"Nobody set {list(keys)} within {limit} s.")
            time.sleep(_POLL)

    def barrier(self, key: str, world_size: int, timeout: Any = None) -> None:
        """Wait until `world_size` callers have come to this key; it may be used again."""
        if world_size < 1:
            return
        came = self.add(f"{key}/came", 1)
        everybody = f"{key}/everybody/{(came - 1) // world_size}"
        if came % world_size == 0:
            self.set(everybody, "1")
        self.wait([everybody], timeout)

    def delete_key(self, key: str) -> bool:
        """Take a key out; whether it was there."""
        return self._change(lambda values: values.pop(key, None) is not None)

    def num_keys(self) -> int:
        """How many keys there are."""
        return self._change(len)

    def list_keys(self) -> list[str]:
        """The keys."""
        return self._change(lambda values: list(values))

    def clone(self) -> Store:
        """The same store, for another thread."""
        return self

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` are there."""
        return True

    def queue_push(self, key: str, value: Any) -> None:
        """Put a value at the end of a queue."""
        number = self.add(f"{key}/queue/end", 1)
        self.set(f"{key}/queue/{number}", value)

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Take the first value of a queue; without `block`, an empty one is an error."""
        until = time.monotonic() + self._limit
        while not self._take_turn(key):
            if not block:
                raise QueueEmptyError(f"queue_pop: {key!r} is empty.")
            if time.monotonic() > until:
                raise DistStoreError(f"Nobody pushed to {key!r} within {self._limit} s.")
            time.sleep(_POLL)
        taken = f"{key}/queue/{self.add(f'{key}/queue/begin', 1)}"
        value = self.get(taken)
        self.delete_key(taken)
        return value

    def _take_turn(self, key: str) -> bool:
        """Take one of the places that are filled and not promised to anybody else."""
        if self.add(f"{key}/queue/promised", 1) <= self.add(f"{key}/queue/end", 0):
            return True
        self.add(f"{key}/queue/promised", -1)
        return False

    def queue_len(self, key: str) -> int:
        """How many values a queue has."""
        return self.add(f"{key}/queue/end", 0) - self.add(f"{key}/queue/begin", 0)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of several keys."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Store several values."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)


class HashStore(Store):
    """A dict, for the threads of one process.

    >>> from pullback.distributed import HashStore
    >>> store = HashStore()
    >>> store.add("ranks", 2), store.get("ranks")
    (2, b'2')
    """

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def _change(self, act: Callable[[dict[str, bytes]], T]) -> T:
        with self._lock:
            return act(self._values)


class FileStore(Store):
    """A dict in a file, for processes that see the same file system.

    >>> import os, tempfile
    >>> from pullback.distributed import FileStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "store")
    ...     FileStore(path, 2).set("seed", 7)
    ...     FileStore(path, 2).get("seed")
    b'7'
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = str(file_name)
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        lock = f"{self.path}.lock"
        until = time.monotonic() + self._limit
        with self._lock:
            while True:
                try:
                    os.close(os.open(lock, os.O_CREAT | os.O_EXCL))
                    break
                except FileExistsError:
                    if time.monotonic() > until:
                        raise DistStoreError(
                            f"{lock} stays: a process died while it wrote; remove it."
                        ) from None
                    time.sleep(0.001)
            try:
                yield
            finally:
                os.unlink(lock)

    def _change(self, act: Callable[[dict[str, bytes]], T]) -> T:
        with self._locked():
            values = self._read()
            before = dict(values)
            result = act(values)
            if values != before:
                fresh = f"{self.path}.new"
                with open(fresh, "wb") as file:
                    pickle.dump(values, file)
                os.replace(fresh, self.path)
            return result

    def _read(self) -> dict[str, bytes]:
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return {}
        return pickle.loads(data) if data else {}


class PrefixStore(Store):
    """A part of another store: its keys begin with a prefix.

    >>> from pullback.distributed import HashStore, PrefixStore
    >>> whole = HashStore()
    >>> PrefixStore("eval", whole).set("seed", 7)
    >>> whole.get("eval/seed")
    b'7'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        self.prefix = prefix
        self.underlying_store = store
        super().__init__()
        self._limit = store._limit

    def _change(self, act: Callable[[dict[str, bytes]], T]) -> T:
        raise NotImplementedError("A PrefixStore hands its calls on.")

    def _name(self, key: str) -> str:
        return f"{self.prefix}/{key}"

    def set(self, key: str, value: Any) -> None:
        """Store a value."""
        self.underlying_store.set(self._name(key), value)

    def get(self, key: str) -> bytes:
        """The value of a key, when it is there."""
        return self.underlying_store.get(self._name(key))

    def add(self, key: str, amount: int) -> int:
        """Add to a number, from 0 on; what it is then."""
        return self.underlying_store.add(self._name(key), amount)

    def append(self, key: str, value: Any) -> None:
        """Add to the end of a value."""
        self.underlying_store.append(self._name(key), value)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Replace a value if it is the expected one; what is there then."""
        return self.underlying_store.compare_set(self._name(key), expected_value, desired_value)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return self.underlying_store.check([self._name(key) for key in keys])

    def delete_key(self, key: str) -> bool:
        """Take a key out; whether it was there."""
        return self.underlying_store.delete_key(self._name(key))

    def num_keys(self) -> int:
        """How many keys the whole store has."""
        return self.underlying_store.num_keys()

    def list_keys(self) -> list[str]:
        """The keys of this part, without the prefix."""
        start = self._name("")
        every = self.underlying_store.list_keys()
        return [key.removeprefix(start) for key in every if key.startswith(start)]

    def reached_by(self) -> str:
        """As the store that it is a part of says it; empty where that does not."""
        asked = getattr(self.underlying_store, "reached_by", None)
        return "" if asked is None else str(asked())


class TCPStore(Store):
    """A dict in one process, which the others reach over a socket. For trusted networks only.

    >>> from pullback.distributed import TCPStore
    >>> own = TCPStore("127.0.0.1", 0, is_master=True)
    >>> other = TCPStore("127.0.0.1", own.port)
    >>> other.set("seed", 7)
    >>> own.get("seed")
    b'7'
    """

    def __init__(
        self,
        host_name: str,
        port: int = 0,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: Any = None,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        if world_size is not None and world_size == 0:
            raise ValueError("TCPStore: world_size is how many processes come, 1 or more, or None.")
        self._limit = in_seconds(timeout, self._limit)
        self.host, self.is_master = host_name, is_master
        self._use_libuv = use_libuv
        self._lock = threading.Lock()
        if is_master:
            self._listening = (
                socket.create_server((host_name, port))
                if master_listen_fd is None
                else socket.socket(fileno=master_listen_fd)
            )
            port = self._listening.getsockname()[1]
            self._values = HashStore()
            Servant(target=self._serve, daemon=True).start()
        self.port = port
        self._connection = self._connect()
        if world_size is not None and wait_for_workers:
            self.add("pullback/workers", 1)
            self._await_workers(world_size)

    @property
    def libuvBackend(self) -> bool:  # noqa: N802  # torch's name
        """Whether the server is torch's newer one: whichever was asked for, it is ours."""
        return self._use_libuv

    def _await_workers(self, world_size: int) -> None:
        until = time.monotonic() + self._limit
        while self.add("pullback/workers", 0) < world_size:
            if time.monotonic() > until:
                raise DistStoreError(
                    f"{self.add('pullback/workers', 0)} of {world_size} processes came to the "
                    f"store within {self._limit} s."
                )
            time.sleep(_POLL)

    def _connect(self) -> socket.socket:
        until = time.monotonic() + self._limit
        while True:
            try:
                made = socket.create_connection((self.host, self.port), timeout=self._limit)
            except OSError as error:
                if time.monotonic() > until:
                    raise DistNetworkError(
                        f"No store answers at {self.host}:{self.port} after {self._limit} s."
                    ) from error
                time.sleep(0.05)
            else:
                notice_silence(made)
                return made

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            Servant(target=self._answer_all, args=(connection,), daemon=True).start()

    def _answer_all(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), connection:
            while True:
                name, args = _receive(connection)
                if name not in _ASKED:
                    return
                _send(connection, getattr(self._values, name)(*args))

    def _ask(self, name: str, *args: Any) -> Any:
        with self._lock:
            try:
                _send(self._connection, (name, args))
                return _receive(self._connection)
            except (OSError, EOFError) as error:
                raise DistNetworkError(f"The store at {self.host}:{self.port} is gone.") from error

    def _change(self, act: Callable[[dict[str, bytes]], T]) -> T:
        raise NotImplementedError("A TCPStore asks by name.")

    def get(self, key: str) -> bytes:
        """The value of a key, when it is there."""
        self.wait([key])
        value: bytes = self._ask("get", key)
        return value

    def reached_by(self) -> str:
        """The address of this machine on the way to the store: others come that way too."""
        return str(self._connection.getsockname()[0])

    def close(self) -> None:
        """Hang up; the master closes the store."""
        self._connection.close()
        if self.is_master:
            self._listening.close()


_ASKED = (
    *("add", "append", "check", "compare_set", "delete_key", "get", "list_keys", "num_keys", "set"),
)


def _asked(name: str) -> Callable[..., Any]:
    def method(self: TCPStore, *args: Any) -> Any:
        return self._ask(name, *args)

    method.__name__ = name
    method.__doc__ = getattr(Store, name).__doc__
    return method


for _name in _ASKED:
    if _name != "get":
        setattr(TCPStore, _name, _asked(_name))


def _send(connection: socket.socket, value: Any) -> None:
    data = pickle.dumps(value)
    connection.sendall(struct.pack("!Q", len(data)) + data)


def _receive(connection: socket.socket) -> Any:
    (size,) = struct.unpack("!Q", _exactly(connection, 8))
    return pickle.loads(_exactly(connection, size))


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
