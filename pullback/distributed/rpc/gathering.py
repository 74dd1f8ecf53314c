"""How workers come to know one another: as threads, by the default group, or through a store."""

from __future__ import annotations

import os
import pickle
import secrets
import socket
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from pullback.distributed import objects, world
from pullback.distributed.errors import missing_workers
from pullback.distributed.rpc.agent import Agent, Directory, Peer, WorkerInfo
from pullback.distributed.rpc.meeting import Meetings, meet
from pullback.distributed.rpc.options import DeviceMaps
from pullback.distributed.rpc.sockets import Door, SocketPeer
from pullback.distributed.store import FileStore, Store, TCPStore

__all__ = ["gathered"]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class _Card(NamedTuple):
    """What a worker tells the others of itself."""

    name: str
    maps: dict[str, dict[str, str]]
    address: tuple[str, int] | None
    secret: bytes


def gathered(
    name: str, rank: int, size: int | None, timeout: float, maps: Any, method: str
) -> Agent:
    """A worker of this name that knows all others, when all are there."""
    known = world.current_world()
    if known is None:
        return _by_store(name, rank, size, timeout, maps, method)
    default = known.default
    if rank not in (-1, default.rank()) or size not in (None, -1, default.size()):
        raise ValueError(
            f"init_rpc: this is rank {default.rank()} of {default.size()}, not {rank} of {size}."
        )
    if default.communicator.engine == "fake":
        raise NotImplementedError(
            "init_rpc: ranks of the engine 'fake' are nobody that could be called; workers are "
            "processes of `pullback launch`, or ranks of distributed.threads.run()."
        )
    if default.communicator.ranks_are_threads:
        return _of_threads(name, default, known, timeout, maps)
    return _by_group(name, default, timeout, maps)


def _checked(cards: list[_Card]) -> None:
    names = [card.name for card in cards]
    if len(set(names)) < len(names):
        raise ValueError(f"init_rpc: every worker has a name of its own, got {names}.")
    for card in cards:
        unknown = sorted(card.maps.keys() - set(names))
        if unknown:
            raise ValueError(f"init_rpc: {card.name!r} has a device map for no worker: {unknown}.")


def _maps(mine: str, cards: list[_Card]) -> DeviceMaps:
    return DeviceMaps(mine, {card.name: card.maps for card in cards})


def _of_threads(name: str, default: Any, home: Any, timeout: float, maps: Any) -> Agent:
    cards: list[Any] = [None] * default.size()
    objects.all_gather_object(cards, _Card(name, maps, None, b""))
    _checked(cards)
    shared: Any = default.communicator.room
    with shared.world.changed:
        directory = shared.world.rooms.setdefault(("rpc", shared), Directory())
        directory.meetings = directory.meetings or Meetings(default.size())
    info = WorkerInfo(name, default.rank())
    agent = Agent(info, directory, timeout, home, _maps(name, cards))
    directory.add(agent.as_neighbour())
    home.at_end.append(lambda: _ended(agent))
    from pullback.distributed import collectives

    collectives.barrier()  # all are in the directory
    return agent


def _ended(agent: Agent) -> None:
    """A rank that is a thread has ended; without shutdown() that is a death."""
    if agent.gone is None:
        agent.die("its rank has ended")
        died = f"worker {agent.info.name!r} died: its rank has ended"
        agent.directory.meetings.died(agent.info.id, died)


# ------------------------------------------------------------------ processes


def _own_host(master: str) -> str:
    """An address at which others reach this machine, as seen on the way to the master."""
    if master in _LOOPBACK:
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((master, 9))  # sends nothing
        return str(probe.getsockname()[0])


def _by_group(name: str, default: Any, timeout: float, maps: Any) -> Agent:
    secret = [secrets.token_bytes(32)]
    objects.broadcast_object_list(secret, 0)
    far = default.communicator.is_far
    host = socket.gethostname() if far else "127.0.0.1"
    door = Door("" if far else host, secret[0])
    cards: list[Any] = [None] * default.size()
    objects.all_gather_object(cards, _Card(name, maps, (host, door.port), secret[0]))
    return _joined(name, default.rank(), cards, door, timeout)


def _by_store(
    name: str, rank: int, size: int | None, timeout: float, maps: Any, method: str
) -> Agent:
    rank, size, host, store = _store(rank, size, timeout, method)
    if rank == 0:
        store.set("rpc/secret", secrets.token_hex(32))
    secret = store.get("rpc/secret")
    own = _own_host(host)
    door = Door(own, secret)
    try:
        store.set(f"rpc/{rank}", pickle.dumps(_Card(name, maps, (own, door.port), secret)))
        cards = [_card(store, number, size) for number in range(size)]
        agent = _joined(name, rank, cards, door, timeout)
        if isinstance(store, TCPStore):
            store.close()  # all have met: nobody needs it, and others may want its port
        meet(agent, "rpc.init_rpc(), when its store was closed", timeout)
    except BaseException:
        door.close()
        raise
    return agent


def _card(store: Store, number: int, size: int) -> _Card:
    try:
        card: _Card = pickle.loads(store.get(f"rpc/{number}"))
    except Exception as error:
        raise missing_workers(number, size) from error
    return card


def _store(rank: int, size: int | None, timeout: float, method: str) -> tuple[int, int, str, Store]:
    url = urlsplit(method)
    if url.scheme not in ("env", "tcp", "file"):
        raise ValueError(
            f"init_rpc: init_method is env://, tcp://host:port or file:///path, got {method!r}."
        )
    query = {key: int(values[0]) for key, values in parse_qs(url.query).items()}
    environment = os.environ
    rank = rank if rank >= 0 else query.get("rank", int(environment.get("RANK", "-1")))
    count = -1 if size is None else size
    count = (
        count if count > 0 else query.get("world_size", int(environment.get("WORLD_SIZE", "-1")))
    )
    host, port = url.hostname, url.port
    if url.scheme == "env":
        host, port = environment.get("MASTER_ADDR"), int(environment.get("MASTER_PORT", "0"))
    if rank < 0 or count < 1 or (url.scheme != "file" and not (host and port)):
        raise ValueError(
            "init_rpc: rank, world_size or the address of rank 0 is not known. Start the program "
            "with `pullback launch -n 2 train.py`, set RANK, WORLD_SIZE, MASTER_ADDR and "
            "MASTER_PORT, or run the workers with distributed.threads.run()."
        )
    if url.scheme == "file":
        store: Store = FileStore(url.path, count)
        store.set_timeout(timeout or 300.0)
        return rank, count, "127.0.0.1", store
    assert host is not None
    assert port is not None
    return rank, count, host, TCPStore(host, port, None, rank == 0, timeout or None)


def _peer(info: WorkerInfo, card: _Card, agent: Agent) -> Peer:
    """How requests get to a worker: by Ray, where it has started us, or over a socket."""
    job = os.environ.get("PULLBACK_RAY_JOB")
    if job is not None:
        from pullback.distributed.engines.ray.peer import ActorPeer

        return ActorPeer(info, f"{job}-{info.id}", agent)
    assert card.address is not None
    return SocketPeer(info, card.address, agent, card.secret)


def _joined(name: str, rank: int, cards: list[_Card], door: Door, timeout: float) -> Agent:
    try:
        _checked(cards)
        directory = Directory()
        agent = Agent(WorkerInfo(name, rank), directory, timeout, None, _maps(name, cards))
        for number, card in enumerate(cards):
            info = WorkerInfo(card.name, number)
            if number == rank:
                directory.add(agent.as_neighbour())
            else:
                directory.add(_peer(info, card, agent))
        if rank == 0:
            directory.meetings = Meetings(len(cards))
        door.open(agent)
        if "PULLBACK_RAY_JOB" in os.environ:
            from pullback.distributed.engines.ray.rank import serve_with

            serve_with(agent)
        agent.at_end += [door.close, *(peer.close for peer in directory.by_id.values())]
        meet(agent, "rpc.init_rpc()", timeout)
    except BaseException:
        door.close()
        raise
    return agent
