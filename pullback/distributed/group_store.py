"""The store that the ranks of a group share: that of `init_process_group`, or one of their own."""

from __future__ import annotations

import socket
from contextlib import suppress

from pullback.distributed.call import Call
from pullback.distributed.engines.threads import ThreadCommunicator
from pullback.distributed.group import ProcessGroup
from pullback.distributed.meeting import hosts
from pullback.distributed.store import HashStore, PrefixStore, Store, TCPStore
from pullback.distributed.world import need_world

__all__ = ["of"]


def of(group: ProcessGroup) -> Store:
    """The group's store; keys of other groups are elsewhere."""
    if group._store is None:
        group._store = _found(group)
    found: Store = group._store
    return found


def _found(group: ProcessGroup) -> Store:
    known = need_world()
    if known.store is not None:
        return PrefixStore(f"pullback/group/{group.group_name} {group.ranks}", known.store)
    communicator = group.communicator
    if isinstance(communicator, ThreadCommunicator):
        return _of_room(communicator)
    if group.size() == 1 or communicator.engine == "fake":
        return HashStore()
    return _over_sockets(group)


def _of_room(communicator: ThreadCommunicator) -> Store:
    room = communicator.room
    with room.world.changed:
        if room.store is None:
            room.store = HashStore()
        found: Store = room.store
        return found


def _over_sockets(group: ProcessGroup) -> Store:
    """The group's first rank keeps it, and tells the others where it is."""
    machines = _said(group, hosts.identity())
    alone = len(set(machines)) == 1
    kept, where = None, ""
    if group.rank() == 0:
        kept = TCPStore("127.0.0.1" if alone else "0.0.0.0", 0, is_master=True)
        where = " ".join([str(kept.port), *(["127.0.0.1"] if alone else hosts.addresses())])
    port, *reached = _said(group, where)[0].split()
    return TCPStore(_answering(reached, int(port)), int(port)) if kept is None else kept


def _said(group: ProcessGroup, text: str) -> list[str]:
    call = Call("get_group_store", "", group.timeout)
    told = group.do(call, lambda: group.communicator.exchange(call, text.encode()), later=False)
    return [one.decode() for one in told]


def _answering(addresses: list[str], port: int) -> str:
    """The first of a machine's addresses that can be reached from here."""
    for address in addresses:
        with suppress(OSError), socket.create_connection((address, port), timeout=5.0):
            return address
    return addresses[0]  # whose error says what is wrong
