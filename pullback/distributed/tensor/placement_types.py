"""`torch.distributed.tensor.placement_types`: how a tensor lies along one dimension of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pullback.core.explain.absent import all_refusing as _all_refusing
from pullback.core.listing import only_public as _only_public

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a tensor lies along one dimension of a mesh.

    >>> from pullback.distributed.tensor import Replicate, Shard
    >>> Shard(1).is_shard(), Replicate().is_shard()
    (True, False)
    """

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each rank has a part (of this dimension)."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each rank has it whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the ranks' tensors have to be reduced (so)."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """A part for each rank, of one dimension.

    Parts are as large as those of `chunk`: the last ones may be smaller, or empty.

    >>> from pullback.distributed.tensor import Shard
    >>> Shard(0).is_shard(dim=0)
    True
    >>> [Shard.part(5, 4, rank) for rank in range(4)]
    [(0, 2), (2, 4), (4, 5), (5, 5)]
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def part(length: int, ranks: int, rank: int) -> tuple[int, int]:
        """Where a rank's part of a dimension begins and ends."""
        step = -(-length // ranks)
        return min(rank * step, length), min((rank + 1) * step, length)


@dataclass(frozen=True)
class _StridedShard(Shard):
    """A part of what later dimensions of the mesh have cut already.

    As `fully_shard` leaves it on rows that tensor parallelism has shared out before.
    """

    split_factor: int = 1

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Whole on each rank.

    >>> from pullback.distributed.tensor import Replicate
    >>> Replicate().is_replicate()
    True
    """

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """On each rank a summand.

    >>> from pullback.distributed.tensor import Partial
    >>> Partial("avg").is_partial("avg")
    True
    """

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


def cutting_order(placements: Sequence[Placement]) -> list[int]:
    """In which order dimensions of the mesh cut a tensor: the strided ones last."""
    return sorted(range(len(placements)), key=lambda n: isinstance(placements[n], _StridedShard))


def normalized(placements: Any, mesh: Any, dims: int) -> tuple[Placement, ...]:
    """One placement for each dimension of the mesh, with dimensions counted from 0."""
    given = (placements,) if isinstance(placements, Placement) else tuple(placements)
    if len(given) != mesh.ndim or not all(isinstance(one, Placement) for one in given):
        raise ValueError(f"placements: one for each of {mesh.ndim} mesh dimensions, got {given}.")
    made = []
    for one in given:
        if isinstance(one, Shard):
            if not -dims <= one.dim < dims:
                raise ValueError(f"{one!r}: the tensor has {dims} dimensions.")
            one = replace(one, dim=one.dim % dims)
        made.append(one)
    return tuple(made)


# Not as a function of the module: type checkers would take every name for one it has.
globals()["__getattr__"] = _all_refusing(__name__, ("DTensorSpec", "TensorMeta"))
__dir__ = _only_public(globals())
