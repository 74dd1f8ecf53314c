"""`torch.distributed.rendezvous`: where processes meet, by an address; gives a store to talk by."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pullback.core.listing import only_public as _only_public
from pullback.distributed.store import FileStore, Store, TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

Meeting = Iterator[tuple[Store, int, int]]  # a store, this process's number, and how many come
_handlers: dict[str, Callable[..., Meeting]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Meeting]) -> None:
    """Let addresses that begin with `scheme://` be handled by a function.

    >>> import pullback.distributed as dist
    >>> def alone(url, **kwargs):
    ...     yield dist.HashStore(), 0, 1
    >>> dist.register_rendezvous_handler("alone", alone)
    >>> next(dist.rendezvous("alone://"))[1:]
    (0, 1)
    """
    if scheme in _handlers:
        raise RuntimeError(f"Addresses of {scheme}:// have a handler already.")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Meeting:
    """Meet at `env://`, `tcp://host:port` or `file:///path`; yields a store, a rank and a size.

    >>> import os, tempfile
    >>> import pullback.distributed as dist
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store, rank, size = next(dist.rendezvous(f"file://{folder}/met", 0, 2))
    ...     rank, size
    (0, 2)
    """
    if not isinstance(url, str):
        raise RuntimeError(f"rendezvous takes an address, got {type(url).__name__}.")
    parts = urlsplit(url)
    query = {name: int(values[0]) for name, values in parse_qs(parts.query).items() if values}
    rank = rank if rank != -1 else query.get("rank", -1)
    world_size = world_size if world_size != -1 else query.get("world_size", -1)
    handler = _handlers.get(parts.scheme)
    if handler is not None:
        return handler(url, rank=rank, world_size=world_size, **kwargs)
    if parts.scheme == "env":
        return _by_environment(rank, world_size, kwargs.get("timeout"))
    if rank < 0 or world_size < 1:
        raise ValueError(f"rendezvous({url!r}) needs rank and world_size.")
    if parts.scheme == "file":
        return iter([(FileStore(parts.path, world_size), rank, world_size)])
    if parts.scheme != "tcp" or parts.hostname is None or parts.port is None:
        raise RuntimeError(f"rendezvous: nobody handles {url!r}; there are env, tcp and file.")
    return _by_address(parts.hostname, parts.port, rank, world_size, kwargs.get("timeout"))


def _by_environment(rank: int, world_size: int, timeout: Any) -> Meeting:
    known = os.environ
    missing = [
        name
        for name, given in (("RANK", rank), ("WORLD_SIZE", world_size))
        if given == -1 and name not in known
    ]
    missing += [name for name in ("MASTER_ADDR", "MASTER_PORT") if name not in known]
    if missing:
        raise ValueError(f"rendezvous('env://'): {', '.join(missing)} not set.")
    rank = rank if rank != -1 else int(known["RANK"])
    world_size = world_size if world_size != -1 else int(known["WORLD_SIZE"])
    host, port = known["MASTER_ADDR"], int(known["MASTER_PORT"])
    return _by_address(host, port, rank, world_size, timeout)


def _by_address(host: str, port: int, rank: int, world_size: int, timeout: Any) -> Meeting:
    store = TCPStore(host, port, None, rank == 0, timeout)
    yield store, rank, world_size


__dir__ = _only_public(globals())
