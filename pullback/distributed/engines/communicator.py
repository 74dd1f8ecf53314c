"""What an engine must be able to do, on contiguous arrays; tensors and groups are above it.

Every method blocks until its result is there. `call` says what the other ranks must be calling
too; an engine that finds otherwise raises, on every rank.
"""

from __future__ import annotations

from typing import Any

from pullback.distributed.call import Call
from pullback.distributed.reduction import ReduceOp

__all__ = ["Communicator"]


class Communicator:
    """The ranks of one group, seen from one of them."""

    engine = ""
    rank: int
    size: int
    name = "the default group"
    # Whether the ranks are threads of one process, each with tensors of its own.
    ranks_are_threads = False
    # Whether ranks are on machines far enough apart that sending early pays.
    is_far = False
    # Whether arrays on devices may be given, and where not, whether they may go through the host.
    takes_devices = False
    may_be_staged = True

    def takes_device_memory(self) -> bool:
        """Whether device arrays may be handed over as they are, once they are computed."""
        return False

    def all_reduce(self, call: Call, array: Any, op: ReduceOp) -> None:
        """Replace `array` by the reduction over all ranks."""
        raise NotImplementedError

    def reduce(self, call: Call, array: Any, op: ReduceOp, root: int) -> None:
        """As `all_reduce`, on the root alone; elsewhere `array` is left as it was."""
        raise NotImplementedError

    def broadcast(self, call: Call, array: Any, root: int) -> None:
        """Replace `array` by the root's."""
        raise NotImplementedError

    def all_gather(self, call: Call, out: Any, array: Any) -> None:
        """Fill `out`, a row for each rank, with what the ranks give."""
        raise NotImplementedError

    def gather(self, call: Call, out: Any, array: Any, root: int) -> None:
        """As `all_gather`, on the root alone; elsewhere `out` is None."""
        raise NotImplementedError

    def scatter(self, call: Call, out: Any, rows: Any, root: int) -> None:
        """Fill `out` with this rank's row of the root's `rows`."""
        raise NotImplementedError

    def reduce_scatter(self, call: Call, out: Any, rows: Any, op: ReduceOp) -> None:
        """Fill `out` with the reduction of this rank's row over all ranks."""
        raise NotImplementedError

    def all_to_all(
        self, call: Call, out: Any, out_sizes: list[int], array: Any, sizes: list[int]
    ) -> None:
        """Send each rank its piece of the flat `array`; `out` gets theirs, in rank order."""
        raise NotImplementedError

    def exchange(self, call: Call, data: bytes) -> list[bytes]:
        """What every rank gives, of any length."""
        raise NotImplementedError

    def barrier(self, call: Call) -> None:
        """Wait until every rank has called this."""
        raise NotImplementedError

    def monitored_barrier(self, call: Call) -> None:
        """As `barrier`; the error names the ranks that did not come."""
        self.barrier(call)

    def send(self, call: Call, array: Any, peer: int, tag: int) -> None:
        """Give `array` to a peer."""
        raise NotImplementedError

    def receive(self, call: Call, array: Any, peer: int | None, tag: int) -> int:
        """Fill `array` with what a peer sent (None: anyone), and tell who."""
        raise NotImplementedError

    def split(self, call: Call, ranks: list[int], name: str) -> Communicator | None:
        """The communicator of some of the ranks; None on the others. All ranks call it."""
        raise NotImplementedError

    def among(self, call: Call, ranks: list[int], name: str) -> Communicator:
        """As `split`, where the ranks themselves alone call it; `name` is theirs alone."""
        raise NotImplementedError

    def abort(self, reason: str) -> None:
        """Let the other ranks fail rather than wait for this one."""

    def close(self) -> None:
        """Give back what the engine holds."""
