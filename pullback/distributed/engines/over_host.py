"""What communicators that stand on another one have in common."""

from __future__ import annotations

from pullback.distributed.call import Call
from pullback.distributed.engines.communicator import Communicator

__all__ = ["OverHost"]


class OverHost(Communicator):
    """The same ranks as another communicator's, which carries what is in main memory."""

    takes_devices = True

    def __init__(self, host: Communicator) -> None:
        self.host = host
        self.rank, self.size, self.name = host.rank, host.size, host.name
        self.is_far, self.ranks_are_threads = host.is_far, host.ranks_are_threads

    def exchange(self, call: Call, data: bytes) -> list[bytes]:
        return self.host.exchange(call, data)

    def barrier(self, call: Call) -> None:
        self.host.barrier(call)

    def monitored_barrier(self, call: Call) -> None:
        """As the other engine's."""
        self.host.monitored_barrier(call)
