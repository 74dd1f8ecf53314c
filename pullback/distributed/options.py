"""Options of the methods of process groups, as torch's inner calls take them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pullback.distributed.reduction import ReduceOp

__all__ = [
    "AllToAllOptions",
    "AllgatherOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "BarrierOptions",
    "BroadcastOptions",
    "GatherOptions",
    "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions",
]

_UNSET = timedelta(milliseconds=-1)  # the group's own


@dataclass
class _Options:
    timeout: timedelta = _UNSET
    asyncOp: bool = True  # noqa: N815 (torch's name)


@dataclass
class _Rooted(_Options):
    rootRank: int = 0  # noqa: N815 (torch's name)
    rootTensor: int = 0  # noqa: N815 (torch's name)


@dataclass
class AllreduceOptions(_Options):
    """Of `allreduce`.

    >>> import pullback as torch
    >>> torch.distributed.AllreduceOptions().reduceOp.name
    'SUM'
    """

    reduceOp: Any = ReduceOp.SUM  # noqa: N815 (torch's name)


@dataclass
class AllreduceCoalescedOptions(AllreduceOptions):
    """Of `allreduce_coalesced`.

    >>> import pullback as torch
    >>> torch.distributed.AllreduceCoalescedOptions().asyncOp
    True
    """


@dataclass
class ReduceScatterOptions(AllreduceOptions):
    """Of `reduce_scatter`.

    >>> import pullback as torch
    >>> torch.distributed.ReduceScatterOptions().asyncOp
    True
    """


@dataclass
class BroadcastOptions(_Rooted):
    """Of `broadcast`.

    >>> import pullback as torch
    >>> torch.distributed.BroadcastOptions().asyncOp
    True
    """


@dataclass
class ReduceOptions(_Rooted):
    """Of `reduce`.

    >>> import pullback as torch
    >>> torch.distributed.ReduceOptions().asyncOp
    True
    """

    reduceOp: Any = ReduceOp.SUM  # noqa: N815 (torch's name)


@dataclass
class GatherOptions(_Rooted):
    """Of `gather`.

    >>> import pullback as torch
    >>> torch.distributed.GatherOptions().asyncOp
    True
    """


@dataclass
class ScatterOptions(_Rooted):
    """Of `scatter`.

    >>> import pullback as torch
    >>> torch.distributed.ScatterOptions().asyncOp
    True
    """


@dataclass
class AllgatherOptions(_Options):
    """Of `allgather`.

    >>> import pullback as torch
    >>> torch.distributed.AllgatherOptions().asyncOp
    True
    """


@dataclass
class AllToAllOptions(_Options):
    """Of `alltoall`.

    >>> import pullback as torch
    >>> torch.distributed.AllToAllOptions().asyncOp
    True
    """


@dataclass
class BarrierOptions(_Options):
    """Of `barrier`.

    >>> import pullback as torch
    >>> torch.distributed.BarrierOptions().asyncOp
    True
    """

    device_ids: list[int] = field(default_factory=list)
    device: Any = None
