"""How processes find one another: under mpiexec, or through RANK, WORLD_SIZE and an address."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pullback.distributed.backend import Backend
from pullback.distributed.engines.communicator import Communicator
from pullback.distributed.engines.fake import FakeCommunicator
from pullback.distributed.meeting import pmi, watch
from pullback.distributed.rendezvous import rendezvous

__all__ = ["Place", "find", "thread_of"]

# What launchers of MPI leave in the environment of the processes that they start.
_UNDER_MPIEXEC = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_FD")


class Place:
    """Which rank of how many this process is, and where the others are to be found."""

    def __init__(
        self, backend: str, rank: int, size: int, meeting: pmi.Meeting | None = None
    ) -> None:
        self.backend = backend
        self.rank, self.size = rank, size
        self.meeting = meeting

    def connect(self) -> Communicator:
        """Be that rank."""
        if self.backend == "fake":
            return FakeCommunicator(max(self.rank, 0), max(self.size, 1))
        if self.backend != "nccl":
            return self._on_the_host()
        from pullback.distributed.engines.nccl import NcclCommunicator

        return NcclCommunicator(self._on_the_host())

    def _on_the_host(self) -> Communicator:
        if self.size == 1 and not _under_mpiexec(os.environ):
            return _alone()
        from pullback.distributed.engines.mpi import MPICommunicator, load_mpi, need_mpi

        need_mpi()
        if (known := watch.current()) is not None:
            known.back()
        elif self.meeting is not None and not _under_mpiexec(os.environ):
            pmi.join(self.meeting, self.rank, self.size)
        mpi = load_mpi()
        communicator = MPICommunicator(mpi, mpi.COMM_WORLD)
        watch.remove_shared_memory()  # every rank has it by now, and nobody can leave it behind
        self._check(communicator, mpi)
        return communicator

    def _check(self, communicator: Communicator, mpi: Any) -> None:
        wrong = self.size not in (-1, communicator.size) or self.rank not in (-1, communicator.rank)
        if wrong:
            library = mpi.Get_library_version().split("\n")[0].strip("\0")
            raise RuntimeError(
                f"This process should be rank {self.rank} of {self.size}, MPI says "
                f"{communicator.rank} of {communicator.size} ({library}). Open MPI joins only "
                "processes that mpiexec or srun started; MPICH (pip install mpich) also those of "
                "`pullback launch` and of RANK and WORLD_SIZE."
            )


def _under_mpiexec(environment: Mapping[str, str]) -> bool:
    return any(name in environment for name in _UNDER_MPIEXEC)


def _alone() -> Communicator:
    """One rank needs no MPI."""
    from pullback.distributed.engines.threads import ThreadCommunicator, ThreadWorld

    return ThreadCommunicator(ThreadWorld(1).room("world", (0,)), 0)


def _engine_of(backend: str | None) -> str:
    """The name, checked; of several for devices NCCL, which brings one for the host."""
    name = "mpi" if backend is None else str(backend).lower()
    if name in ("cpu:gloo,cuda:nccl", "cpu:mpi,cuda:nccl", "cuda:nccl"):
        name = "nccl"
    for part in name.split(","):
        device, _, engine = part.rpartition(":")
        if device in ("", "cpu"):
            name = engine
    if name == "threads":
        raise ValueError(
            "Ranks that are threads are begun by pullback.distributed.threads.run(function, n); "
            "threads of your own say rank=, world_size= and store=, which they share."
        )
    if name not in ("mpi", "gloo", "nccl", "fake"):
        raise ValueError(
            f"backend is 'mpi', 'gloo' (carried by MPI), 'nccl' or 'fake', got {backend!r}."
        )
    if name == "nccl":
        from pullback.distributed.engines.nccl import need_nccl

        need_nccl()
    return name


_worlds: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_making = threading.Lock()


def thread_of(store: Any, rank: int, size: int) -> Communicator:
    """A rank that is this thread: with those that come with the same store."""
    from pullback.distributed.engines.threads import ThreadCommunicator, ThreadWorld

    if not 0 <= rank < size:
        raise ValueError(f"init_process_group('threads'): rank {rank} of {size}; give both.")
    with _making:
        world = _worlds.setdefault(store, ThreadWorld(size))
    if world.size != size:
        raise ValueError(f"init_process_group: {size} threads, where others say {world.size}.")
    return ThreadCommunicator(world.room("world", tuple(range(size))), rank)


class UsersPlace(Place):
    """A place in a group of the user's own back end."""

    def __init__(self, name: str, rank: int, size: int, store: Any, timeout: float) -> None:
        super().__init__(name, rank, size)
        self._store, self._timeout = store, timeout

    def connect(self) -> Communicator:
        """Be that rank."""
        from pullback.distributed.engines.users import UsersCommunicator

        limit = timedelta(seconds=self._timeout)
        known = Backend._plugins[self.backend]
        if known.extended_api:
            about = SimpleNamespace(
                store=self._store, group_rank=self.rank, group_size=self.size, timeout=limit
            )
            made = known.create(about, None)
        else:
            made = known.create(self._store, self.rank, self.size, limit)
        return UsersCommunicator(self.backend, made, self.rank, self.size)


def _users_place(
    name: str, method: str | None, size: int, rank: int, store: Any, timeout: float
) -> Place:
    if store is None:
        store, rank, size = next(rendezvous(method or "env://", rank, size))
    return UsersPlace(name, rank, size, store, timeout)


def find(
    backend: str | None,
    method: str | None,
    size: int,
    rank: int,
    store: Any = None,
    timeout: float = 1800.0,
) -> Place:
    """What the arguments and the environment say."""
    if backend is not None and str(backend).lower() in Backend._plugins:
        return _users_place(str(backend).lower(), method, size, rank, store, timeout)
    engine = _engine_of(backend)
    if engine == "fake":
        return Place(engine, rank, size)
    if store is not None:
        if method is not None:
            raise ValueError("init_process_group takes init_method or store, not both.")
        return Place(engine, rank, size, pmi.meeting_in(store, rank, size))
    if method is not None and not method.startswith("env://"):
        return _from_url(engine, method, size, rank)
    if _under_mpiexec(os.environ):
        return Place(engine, rank, size)
    return _from_environment(engine, size, rank)


def _from_environment(engine: str, size: int, rank: int) -> Place:
    environment = os.environ
    size = size if size != -1 else int(environment.get("WORLD_SIZE", "-1"))
    rank = rank if rank != -1 else int(environment.get("RANK", "-1"))
    if size == -1 and rank == -1 and engine == "mpi":
        return Place(engine, 0, 1)
    missing = [name for name, value in (("RANK", rank), ("WORLD_SIZE", size)) if value == -1]
    if size != 1:
        missing += [n for n in ("MASTER_ADDR", "MASTER_PORT") if n not in environment]
    if missing:
        raise ValueError(
            f"init_process_group: {', '.join(missing)} not set. Start the program with `pullback "
            f"launch -n 2 {os.path.basename(sys.argv[0]) or 'train.py'}` or mpiexec, or set them."
        )
    if size == 1:
        return Place(engine, rank, size)
    port = environment.get("PULLBACK_PMI_PORT", environment["MASTER_PORT"])
    return Place(engine, rank, size, pmi.Meeting((environment["MASTER_ADDR"],), int(port)))


def _from_url(engine: str, method: str, size: int, rank: int) -> Place:
    url = urlsplit(method)
    query = parse_qs(url.query)
    size = int(query["world_size"][0]) if "world_size" in query else size
    rank = int(query["rank"][0]) if "rank" in query else rank
    if size < 1 or rank < 0:
        raise ValueError(f"init_process_group({method!r}) needs world_size and rank.")
    if url.scheme == "file":
        from pullback.distributed.store import FileStore

        return Place(engine, rank, size, pmi.meeting_in(FileStore(url.path, size), rank, size))
    if url.scheme != "tcp" or url.hostname is None or url.port is None:
        raise ValueError(f"init_method is env://, tcp://host:port or file:///path, got {method!r}.")
    return Place(engine, rank, size, pmi.Meeting((url.hostname,), url.port))
