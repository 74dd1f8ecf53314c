"""How processes that no mpiexec started become ranks of one MPI job: see `pmi_service`."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from pullback.distributed.errors import DistNetworkError
from pullback.distributed.pmi_service import Service, listen

__all__ = ["ServiceHere", "address_in", "join", "leave", "shared_memory", "start_service", "tell"]

_PATIENCE = 30.0  # seconds in which the service must be there
_SERVICE = Path(__file__).with_name("pmi_service.py")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def start_service(
    size: int, host: str = "127.0.0.1", port: int = 0, on_each_node: int = 0
) -> tuple[Any, int]:
    """A process that serves one job of `size` ranks, and its port.

    Where ranks are known to be spread evenly, `on_each_node` tells MPI who shares memory.
    """
    given = [str(size), str(on_each_node), host, str(port)]
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_SERVICE), *given],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline().split()
    process.stdout.close()
    if not said:
        process.wait()
        raise _cannot_listen(host, port)
    return process, int(said[0])


def _cannot_listen(host: str, port: int) -> DistNetworkError:
    return DistNetworkError(f"The PMI service could not listen at {host}:{port}.")


class ServiceHere:
    """The same on a thread of this process, for who is no rank: a launcher."""

    def __init__(self, size: int, host: str, port: int, on_each_node: int) -> None:
        try:
            self._listening = listen(size, host, port)
        except OSError as error:
            raise _cannot_listen(host, port) from error
        self.port = int(self._listening.getsockname()[1])
        self._thread = threading.Thread(
            target=Service(size, on_each_node).serve, args=(self._listening,), daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Hear nobody any more; those who were connected are gone by now."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # closing alone would not end the wait
        self._thread.join(1.0)
        self._listening.close()


def address_in(store: Any, rank: int) -> tuple[str, int]:
    """Where the service is, by way of a store: rank 0 chooses the port and tells."""
    if rank == 0:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            store.set("pullback/pmi", f"127.0.0.1:{probe.getsockname()[1]}")
    host, _, port = store.get("pullback/pmi").decode().rpartition(":")
    return host, int(port)


def join(address: tuple[str, int], rank: int, size: int) -> None:
    """Become a rank of the job at `address`; what follows is importing mpi4py.

    Rank 0 starts the service, unless a launcher has (`PULLBACK_PMI_PORT` says so).
    """
    known = sys.modules.get("mpi4py.MPI")
    if known is not None and known.Is_initialized():
        raise RuntimeError("MPI runs already in this process: it can be joined only before that.")
    if rank == 0 and "PULLBACK_PMI_PORT" not in os.environ:
        here = os.environ.get("LOCAL_WORLD_SIZE", str(size if address[0] in _LOOPBACK else 0))
        service, _ = start_service(size, *address, on_each_node=int(here))
        atexit.register(_let_end, service)
    connection = _connect(address, rank)
    os.set_inheritable(connection.fileno(), True)
    # Detached: MPI uses it until its end, which comes after Python would have closed it.
    os.environ.update(
        PMI_FD=str(connection.detach()),
        PMI_RANK=str(rank),
        PMI_SIZE=str(size),
        PMI_SPAWNED="0",
        PULLBACK_JOINED="1",
    )
    _stay_in_touch(_connect(address, rank), rank)


def _let_end(service: Any) -> None:
    """The service ends when the last rank does; nobody is left to ask how."""
    service.poll()
    service.returncode = service.returncode or 0


def _connect(address: tuple[str, int], rank: int) -> socket.socket:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            connection = socket.create_connection(address, timeout=5.0)
        except OSError as error:
            if time.monotonic() > until:
                raise DistNetworkError(
                    f"rank {rank}: nobody answers at {address[0]}:{address[1]} after "
                    f"{_PATIENCE:.0f} s: is rank 0 running, and are MASTER_ADDR and MASTER_PORT "
                    "the same for all?"
                ) from error
            time.sleep(0.05)
        else:
            connection.settimeout(None)
            return connection


def shared_memory(pid: int | str) -> set[str]:
    """Files of shared memory that MPICH has open in a process."""
    try:
        with open(f"/proc/{pid}/maps") as maps:
            return {line.split()[-1] for line in maps if "/dev/shm/mpich_shm_" in line}
    except OSError:
        return set()


def tell(text: str) -> None:
    """A line on stderr, in one piece: other ranks write there too, and `print` writes in two."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def leave() -> NoReturn:
    """End this process, failed; what MPI would not remove then is removed."""
    for path in shared_memory("self"):
        with contextlib.suppress(OSError):
            os.unlink(path)
    os._exit(1)


def _stay_in_touch(connection: socket.socket, rank: int) -> None:
    """End this process when another rank has died: MPI would wait for it without end."""
    connection.sendall(f"watch {rank}\n".encode())
    ended: list[bool] = []

    def say_bye() -> None:
        ended.append(True)
        try:
            connection.sendall(b"bye\n")
        except OSError:
            return

    def listen() -> None:
        with connection.makefile("r") as lines:
            said = lines.readline().split()
        if said[:1] == ["lost"] and not ended:
            time.sleep(0.5)  # a failed rank may have told this one why
            tell(f"rank {rank}: rank {said[1]} is gone; the job is aborted.")
            leave()

    atexit.register(say_bye)
    threading.Thread(target=listen, name="watch over ranks", daemon=True).start()
