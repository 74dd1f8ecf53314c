"""Messages from one rank to another: send, recv and their kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.distributed.arguments import array_of, member, own_group, packed, written
from pullback.distributed.call import Call, describe
from pullback.distributed.group import ProcessGroup, Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _peer(known: ProcessGroup, rank: int | None, in_group: int | None, what: str) -> int:
    peer = member(known, rank, in_group, what)
    if peer == known.rank():
        raise ValueError(f"{what}: rank {peer} is this one.")
    return peer


def _sending(known: ProcessGroup, tensor: Any, peer: int, tag: int) -> tuple[Call, Any]:
    data = packed(array_of(tensor, "send"))
    call = Call("send", f"{describe(data)} to {peer}, tag {tag}", known.timeout)
    return call, lambda: known.communicator.send(call, data, peer, tag)


def _receiving(
    known: ProcessGroup, tensor: Any, peer: int | None, tag: int
) -> tuple[Call, Callable[[], int]]:
    array = array_of(tensor, "recv")
    whom = "anyone" if peer is None else peer
    call = Call("recv", f"{describe(array)} from {whom}, tag {tag}", known.timeout)

    def act() -> int:
        data = packed(array)
        giver = known.communicator.receive(call, data, peer, tag)
        written(tensor, data, "recv")
        return known.ranks[giver]

    return call, act


def send(
    tensor: Any,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Give a tensor to rank `dst`.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def passed():
    ...     x = torch.tensor([float(dist.get_rank())])
    ...     dist.send(x, 1) if dist.get_rank() == 0 else dist.recv(x, 0)
    ...     return x.item()
    >>> dist.threads.run(passed, 2)
    [0.0, 0.0]
    """
    known = own_group(group, "send")
    if known is not None:
        _, act = _sending(known, tensor, _peer(known, dst, group_dst, "send"), tag)
        act()


def recv(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Fill a tensor with what rank `src` sends (None: anyone), and tell who it was.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def passed():
    ...     x = torch.tensor([5.0 - 5.0 * dist.get_rank()])
    ...     dist.send(x, 1) if dist.get_rank() == 0 else dist.recv(x, 0)
    ...     return x.item()
    >>> dist.threads.run(passed, 2)
    [5.0, 5.0]
    """
    known = own_group(group, "recv")
    if known is None:
        return -1
    anyone = src is None and group_src is None
    peer = None if anyone else _peer(known, src, group_src, "recv")
    _, act = _receiving(known, tensor, peer, tag)
    return act()


def isend(
    tensor: Any,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begin to send; the tensor is to be left alone until `wait()`.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def passed():
    ...     x = torch.tensor([float(dist.get_rank())])
    ...     (dist.isend(x, 1) if dist.get_rank() == 0 else dist.irecv(x, 0)).wait()
    ...     return x.item()
    >>> dist.threads.run(passed, 2)
    [0.0, 0.0]
    """
    known = own_group(group, "isend")
    if known is None:
        return None
    peer = _peer(known, dst, group_dst, "isend")
    call, act = _sending(known, tensor, peer, tag)
    return known.apart(("send", peer, tag), call, act, [tensor])


def irecv(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begin to receive.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def passed():
    ...     x = torch.tensor([float(dist.get_rank())])
    ...     (dist.isend(x, 0) if dist.get_rank() == 1 else dist.irecv(x, 1)).wait()
    ...     return x.item()
    >>> dist.threads.run(passed, 2)
    [1.0, 1.0]
    """
    known = own_group(group, "irecv")
    if known is None:
        return None
    anyone = src is None and group_src is None
    peer = None if anyone else _peer(known, src, group_src, "irecv")
    call, act = _receiving(known, tensor, peer, tag)
    return known.apart(("recv", peer, tag), call, act, [tensor])


class P2POp:
    """One message of a batch: `isend` or `irecv`, its tensor and its peer."""

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Any,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError("P2POp: op is distributed.isend or distributed.irecv.")
        self.op, self.tensor, self.peer = op, tensor, peer
        self.group, self.tag, self.group_peer = group, tag, group_peer


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Begin all messages of a batch.

    >>> import pullback as torch
    >>> dist = torch.distributed
    >>> def swapped():
    ...     other = 1 - dist.get_rank()
    ...     mine, theirs = torch.tensor([dist.get_rank()]), torch.tensor([-1])
    ...     pair = [dist.P2POp(dist.isend, mine, other), dist.P2POp(dist.irecv, theirs, other)]
    ...     for work in dist.batch_isend_irecv(pair):
    ...         work.wait()
    ...     return theirs.item()
    >>> dist.threads.run(swapped, 2)
    [1, 0]
    """
    if not p2p_op_list:
        raise ValueError("batch_isend_irecv: the list is empty.")
    works = []
    for one in p2p_op_list:
        work = one.op(one.tensor, one.peer, one.group, one.tag, one.group_peer)
        if work is not None:
            works.append(work)
    return works
