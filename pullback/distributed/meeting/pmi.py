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
from typing import Any, NamedTuple

from pullback.distributed.errors import DistNetworkError
from pullback.distributed.meeting import hosts
from pullback.distributed.meeting.pmi_service import Service, listen
from pullback.distributed.meeting.watch import Watch, shared_memory, tell

__all__ = ["Meeting", "ServiceHere", "join", "meeting_in", "shared_memory", "start_service", "tell"]

_PATIENCE = 30.0  # seconds in which the service must be there
_SERVICE = Path(__file__).with_name("pmi_service.py")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Meeting(NamedTuple):
    """Where the ranks of a job find its service.

    `hosts` are addresses of one machine, of which another may reach some only; what answers there
    is the service if it knows the `word`. `mapping` says which ranks are on which machine.
    """

    hosts: tuple[str, ...]
    port: int
    word: str = ""
    mapping: str = ""


def start_service(
    size: int,
    host: str = "127.0.0.1",
    port: int = 0,
    on_each_node: int = 0,
    mapping: str = "",
    word: str = "",
) -> tuple[Any, int]:
    """A process that serves one job of `size` ranks, and its port.

    Where ranks are known to be spread evenly, `on_each_node` tells MPI who shares memory;
    otherwise `mapping` may, in MPI's own words.
    """
    given = [str(size), str(on_each_node), host, str(port), mapping, word]
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

    def __init__(
        self, size: int, host: str, port: int, on_each_node: int, mapping: str = ""
    ) -> None:
        try:
            self._listening = listen(size, host, port)
        except OSError as error:
            raise _cannot_listen(host, port) from error
        self.port = int(self._listening.getsockname()[1])
        self._thread = threading.Thread(
            target=Service(size, on_each_node, mapping).serve, args=(self._listening,), daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        """Hear nobody any more; those who were connected are gone by now."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # closing alone would not end the wait
        self._thread.join(1.0)
        self._listening.close()


def meeting_in(store: Any, rank: int, size: int) -> Meeting:
    """Where the service is, by way of a store: rank 0 says, once it knows where the others are."""
    store.set(f"pullback/host/{rank}", hosts.identity())
    if rank == 0:
        machines = [store.get(f"pullback/host/{other}").decode() for other in range(size)]
        alone = len(set(machines)) == 1
        host = "127.0.0.1" if alone else ""
        with socket.create_server((host, 0)) as probe:
            port = probe.getsockname()[1]
        reached = ["127.0.0.1"] if alone else hosts.addresses(store)
        word = os.urandom(8).hex()
        store.set("pullback/pmi", " ".join([str(port), word, hosts.mapping(machines), *reached]))
    found, word, mapping, *reached = store.get("pullback/pmi").decode().split()
    return Meeting(tuple(reached), int(found), word, mapping)


def join(place: Meeting, rank: int, size: int) -> None:
    """Become a rank of the job that meets there; what follows is importing mpi4py.

    Rank 0 starts the service, unless a launcher has (`PULLBACK_PMI_PORT` says so).
    """
    known = sys.modules.get("mpi4py.MPI")
    if known is not None and known.Is_initialized():
        raise RuntimeError("MPI runs already in this process: it can be joined only before that.")
    if rank == 0 and "PULLBACK_PMI_PORT" not in os.environ:
        near = place.hosts[0] in _LOOPBACK
        here = 0 if place.mapping else os.environ.get("LOCAL_WORLD_SIZE", size if near else 0)
        host = "" if place.word and not near else place.hosts[0]
        service, _ = start_service(size, host, place.port, int(here), place.mapping, place.word)
        atexit.register(_let_end, service)
    connection = _connect(place, rank)
    os.set_inheritable(connection.fileno(), True)
    # Detached: MPI uses it until its end, which comes after Python would have closed it.
    os.environ.update(
        PMI_FD=str(connection.detach()),
        PMI_RANK=str(rank),
        PMI_SIZE=str(size),
        PMI_SPAWNED="0",
        PULLBACK_JOINED="1",
    )
    Watch(_connect(place, rank), rank)


def _let_end(service: Any) -> None:
    """The service ends when the last rank does; nobody is left to ask how."""
    service.poll()
    service.returncode = service.returncode or 0


def _connect(place: Meeting, rank: int) -> socket.socket:
    until = time.monotonic() + _PATIENCE
    while True:
        for host in place.hosts:
            with contextlib.suppress(OSError):
                connection = socket.create_connection((host, place.port), timeout=5.0)
                if _is_known(connection, place.word):
                    connection.settimeout(None)
                    return connection
                connection.close()
        if time.monotonic() > until:
            where = " or ".join(f"{host}:{place.port}" for host in place.hosts)
            raise DistNetworkError(
                f"rank {rank}: nobody answers at {where} after {_PATIENCE:.0f} s: is rank 0 "
                "running, and are MASTER_ADDR and MASTER_PORT the same for all?"
            )
        time.sleep(0.05)


def _is_known(connection: socket.socket, word: str) -> bool:
    """Whether it is the job's service that answers; an address alone may be another machine's."""
    if not word:
        return True
    connection.sendall(f"hello {word}\n".encode())
    heard = b""
    while len(heard) < 6 and (more := connection.recv(6 - len(heard))):
        heard += more
    return heard == b"hello\n"
