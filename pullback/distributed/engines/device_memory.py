"""Device arrays handed to an MPI that takes them, and the question whether it does.

MPI knows no streams: it may read an array only when what computes it is done, so the array's
stream is waited for first. Every call blocks, so that what comes after finds the result. A rank
whose MPI takes device memory and one whose does not make the same MPI calls, and can be mixed.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

from pullback.core.arrays import LIBRARIES
from pullback.distributed.call import Call
from pullback.distributed.engines.communicator import Communicator
from pullback.distributed.engines.staged import StagedCommunicator
from pullback.distributed.reduction import ReduceOp, working_dtype
from pullback.operators.cuda.found import found

__all__ = ["DirectCommunicator", "over_devices", "probe"]

SETTING = "PULLBACK_MPI_DEVICE_MEMORY"
_QUERY = "MPIX_Query_cuda_support"  # an extension that MPICH and Open MPI share


def probe(mpi: Any) -> bool:
    """Whether this MPI takes pointers to CUDA memory; `PULLBACK_MPI_DEVICE_MEMORY` overrides it.

    MPI 4.1 tells the kinds of memory that it knows. Older ones have a function for it; MPICH's
    says how it was built, and `MPIR_CVAR_ENABLE_GPU=0` switches that off.
    """
    wanted = os.environ.get(SETTING, "").lower()
    if wanted in ("1", "on", "true"):
        return True
    if wanted in ("0", "off", "false"):
        return False
    if wanted not in ("", "auto"):
        raise ValueError(f"{SETTING} is 1, 0 or auto, got {wanted!r}.")
    if os.environ.get("MPIR_CVAR_ENABLE_GPU") == "0":
        return False
    kinds = mpi.COMM_WORLD.Get_info().Get("mpi_memory_alloc_kinds") or ""
    return "cuda" in kinds or _says_so(mpi)


def _says_so(mpi: Any) -> bool:
    try:
        query = getattr(ctypes.CDLL(mpi.__file__), _QUERY)  # also found in what it links to
    except (OSError, AttributeError):
        return False
    return bool(query())


def over_devices(host: Communicator) -> Communicator:
    """A communicator of the same ranks that takes device arrays: directly, or through the host."""
    kind = DirectCommunicator if host.takes_device_memory() else StagedCommunicator
    return kind(host)


def _settle(*arrays: Any) -> None:
    """Wait until device arrays are computed, and nobody reads those that will be written."""
    for array in arrays:
        if type(array) in LIBRARIES:
            with array.device:
                found.cupy.cuda.get_current_stream().synchronize()


def _reduces(array: Any) -> bool:
    """Whether MPI adds such numbers as they are: bools and half precision are converted."""
    return bool(array.dtype.kind != "b" and working_dtype(array.dtype) == array.dtype)


class DirectCommunicator(StagedCommunicator):
    """MPI itself; only reductions of what it cannot add go through the host."""

    def all_reduce(self, call: Call, array: Any, op: ReduceOp) -> None:
        if not _reduces(array):
            return super().all_reduce(call, array, op)
        _settle(array)
        return self.host.all_reduce(call, array, op)

    def reduce(self, call: Call, array: Any, op: ReduceOp, root: int) -> None:
        if not _reduces(array):
            return super().reduce(call, array, op, root)
        _settle(array)
        return self.host.reduce(call, array, op, root)

    def reduce_scatter(self, call: Call, out: Any, rows: Any, op: ReduceOp) -> None:
        if not _reduces(out):
            return super().reduce_scatter(call, out, rows, op)
        _settle(out, rows)
        return self.host.reduce_scatter(call, out, rows, op)

    def broadcast(self, call: Call, array: Any, root: int) -> None:
        _settle(array)
        self.host.broadcast(call, array, root)

    def all_gather(self, call: Call, out: Any, array: Any) -> None:
        _settle(out, array)
        self.host.all_gather(call, out, array)

    def gather(self, call: Call, out: Any, array: Any, root: int) -> None:
        _settle(out, array)
        self.host.gather(call, out, array, root)

    def scatter(self, call: Call, out: Any, rows: Any, root: int) -> None:
        _settle(out, rows)
        self.host.scatter(call, out, rows, root)

    def all_to_all(
        self, call: Call, out: Any, out_sizes: list[int], array: Any, sizes: list[int]
    ) -> None:
        _settle(out, array)
        self.host.all_to_all(call, out, out_sizes, array, sizes)

    def send(self, call: Call, array: Any, peer: int, tag: int) -> None:
        _settle(array)
        self.host.send(call, array, peer, tag)

    def receive(self, call: Call, array: Any, peer: int | None, tag: int) -> int:
        _settle(array)
        return self.host.receive(call, array, peer, tag)
