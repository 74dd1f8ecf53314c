"""Collectives of picklable objects. As with every pickle: among ranks that trust one another."""

from __future__ import annotations

import pickle
from typing import Any

import numpy

from pullback.core.tensor import wrap
from pullback.distributed.arguments import member, own_group
from pullback.distributed.call import Call
from pullback.distributed.messages import recv, send

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _exchange(known: Any, name: str, data: bytes) -> list[bytes]:
    call = Call(name, "objects", known.timeout)
    all_of_them: list[bytes] = known.do(
        call, lambda: known.communicator.exchange(call, data), later=False
    )
    return all_of_them


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Fill `object_list` with what every rank gives.

    >>> import pullback.distributed as dist
    >>> def names():
    ...     known = [None] * dist.get_world_size()
    ...     dist.all_gather_object(known, f"rank {dist.get_rank()}")
    ...     return known
    >>> dist.threads.run(names, 2)[0]
    ['rank 0', 'rank 1']
    """
    known = own_group(group, "all_gather_object")
    if known is None:
        return
    if len(object_list) != known.size():
        raise ValueError(
            f"all_gather_object: a list of {len(object_list)} for {known.size()} ranks."
        )
    object_list[:] = [pickle.loads(d) for d in _exchange(known, "all_gather_object", _dump(obj))]


def _dump(value: Any) -> bytes:
    return pickle.dumps(value)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Fill a list, on rank `dst` alone, with what every rank gives.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def gathered():
    ...     found = [None, None] if dist.get_rank() == 0 else None
    ...     dist.gather_object(dist.get_rank(), found, dst=0)
    ...     return found
    >>> dist.threads.run(gathered, 2)
    [[0, 1], None]
    """
    known = own_group(group, "gather_object")
    if known is None:
        return
    root = member(
        known, dst, 0 if dst is None and group_dst is None else group_dst, "gather_object"
    )
    at_root = known.rank() == root
    if at_root and (object_gather_list is None or len(object_gather_list) != known.size()):
        raise ValueError(f"gather_object: rank {root} needs a list of {known.size()}.")
    if not at_root and object_gather_list is not None:
        raise ValueError(f"gather_object: object_gather_list is for rank {root} alone.")
    given = _exchange(known, f"gather_object to {root}", _dump(obj))
    if object_gather_list is not None:
        object_gather_list[:] = [pickle.loads(data) for data in given]


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Replace the objects of a list by those of rank `src`.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def told():
    ...     words = [f"from {dist.get_rank()}"]
    ...     dist.broadcast_object_list(words, src=0)
    ...     return words
    >>> dist.threads.run(told, 2)
    [['from 0'], ['from 0']]
    """
    known = own_group(group, "broadcast_object_list")
    if known is None:
        return
    src_in = 0 if src is None and group_src is None else group_src
    root = member(known, src, src_in, "broadcast_object_list")
    mine = _dump(list(object_list)) if known.rank() == root else b""
    given = _exchange(known, f"broadcast_object_list of {len(object_list)} from {root}", mine)
    if known.rank() != root:
        object_list[:] = pickle.loads(given[root])


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Put this rank's item of the list that rank `src` gives first in the output list.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def given():
    ...     mine = [None]
    ...     dist.scatter_object_list(mine, ["a", "b"], src=0)
    ...     return mine
    >>> dist.threads.run(given, 2)
    [['a'], ['b']]
    """
    known = own_group(group, "scatter_object_list")
    if known is None:
        return
    src_in = 0 if src is None and group_src is None else group_src
    root = member(known, src, src_in, "scatter_object_list")
    if not scatter_object_output_list:
        raise ValueError("scatter_object_list: the output list has no place.")
    mine = b""
    if known.rank() == root:
        if scatter_object_input_list is None or len(scatter_object_input_list) != known.size():
            raise ValueError(f"scatter_object_list: rank {root} needs a list of {known.size()}.")
        mine = _dump([_dump(one) for one in scatter_object_input_list])
    given = _exchange(known, f"scatter_object_list from {root}", mine)
    scatter_object_output_list[0] = pickle.loads(pickle.loads(given[root])[known.rank()])


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to one rank.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def told():
    ...     words = ["hello"] if dist.get_rank() == 0 else [None]
    ...     pass_on = dist.send_object_list if dist.get_rank() == 0 else dist.recv_object_list
    ...     pass_on(words, 1 - dist.get_rank())
    ...     return words
    >>> dist.threads.run(told, 2)
    [['hello'], ['hello']]
    """
    data = numpy.frombuffer(_dump(list(object_list)), numpy.uint8)
    send(wrap(numpy.array([data.size], numpy.int64)), dst, group, group_dst=group_dst)
    send(wrap(data), dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Fill a list with the objects that a rank sent, and tell who it was.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def told():
    ...     if dist.get_rank() == 1:
    ...         dist.send_object_list(["step", 7], 0)
    ...         return None
    ...     heard = [None, None]
    ...     return dist.recv_object_list(heard, 1), heard
    >>> dist.threads.run(told, 2)[0]
    (1, ['step', 7])
    """
    size = wrap(numpy.zeros(1, numpy.int64))
    giver = recv(size, src, group, group_src=group_src)
    data = wrap(numpy.empty(int(size._array[0]), numpy.uint8))
    recv(data, giver, group)
    objects = pickle.loads(data._array.tobytes())
    if len(objects) != len(object_list):
        raise RuntimeError(
            f"recv_object_list: rank {giver} sent {len(objects)} objects for {len(object_list)}."
        )
    object_list[:] = objects
    return giver
