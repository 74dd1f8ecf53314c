"""How a tensor would lie over ranks: values that plans of libraries are made of.

Tensors that lie so (DTensor) are not here (`not_here.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a tensor would lie along one dimension of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each rank would have a part (of this dimension)."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each rank would have it whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the ranks' tensors would have to be reduced (so)."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """A part for each rank, of one dimension.

    >>> from pullback.distributed.placements import Shard
    >>> Shard(0).is_shard(dim=0)
    True
    """

    dim: int


@dataclass(frozen=True)
class Replicate(Placement):
    """Whole on each rank."""


@dataclass(frozen=True)
class Partial(Placement):
    """On each rank a summand."""

    reduce_op: str = "sum"
