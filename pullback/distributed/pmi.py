"""How processes that no mpiexec started become ranks of one MPI job: see `pmi_service`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from pullback.distributed.errors import DistNetworkError

__all__ = ["address_in", "join", "start_service"]

_PATIENCE = 30.0  # seconds in which the service must be there
_SERVICE = Path(__file__).with_name("pmi_service.py")


def start_service(size: int, host: str = "127.0.0.1", port: int = 0) -> tuple[Any, int]:
    """A process that serves one job of `size` ranks, and its port."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_SERVICE), str(size), host, str(port)],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    said = process.stdout.readline().split()
    if not said:
        raise DistNetworkError(f"The PMI service could not listen at {host}:{port}.")
    process.stdout.close()
    return process, int(said[0])


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
    if "mpi4py.MPI" in sys.modules and sys.modules["mpi4py.MPI"].Is_initialized():
        raise RuntimeError("MPI runs already in this process: it can be joined only before that.")
    if rank == 0 and "PULLBACK_PMI_PORT" not in os.environ:
        start_service(size, address[0], address[1])
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            connection = socket.create_connection(address, timeout=5.0)
            break
        except OSError as error:
            if time.monotonic() > until:
                raise DistNetworkError(
                    f"rank {rank}: nobody answers at {address[0]}:{address[1]} after "
                    f"{_PATIENCE:.0f} s: is rank 0 running, and are MASTER_ADDR and MASTER_PORT "
                    "the same for all?"
                ) from error
            time.sleep(0.05)
    connection.settimeout(None)
    os.set_inheritable(connection.fileno(), True)
    # Detached: MPI uses it until its end, which comes after Python would have closed it.
    os.environ.update(
        PMI_FD=str(connection.detach()), PMI_RANK=str(rank), PMI_SIZE=str(size), PMI_SPAWNED="0"
    )
