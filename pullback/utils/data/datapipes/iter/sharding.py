"""The pipe that gives each worker its own part of the items."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe

__all__ = ["SHARDING_PRIORITIES", "ShardingFilterIterDataPipe"]


class SHARDING_PRIORITIES(IntEnum):  # noqa: N801  # torch's name
    """Among whom items are shared out: first between machines, then between workers of each."""

    DEFAULT = 1
    DISTRIBUTED = 2
    MULTIPROCESSING = 3


@functional_datapipe("sharding_filter")
class ShardingFilterIterDataPipe(IterDataPipe[Any]):
    """Every n-th item; a loader says which ones a worker gets.

    >>> from pullback.utils.data.datapipes.iter import IterableWrapper, ShardingFilter
    >>> shard = ShardingFilter(IterableWrapper(range(6)))
    >>> shard.apply_sharding(2, 1)
    >>> list(shard)
    [1, 3, 5]
    """

    def __init__(self, source_datapipe: Any, sharding_group_filter: Any = None) -> None:
        self.source_datapipe, self.sharding_group_filter = source_datapipe, sharding_group_filter
        self.groups: dict[int, tuple[int, int]] = {}

    def apply_sharding(
        self,
        num_of_instances: int,
        instance_id: int,
        sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
    ) -> None:
        """Give the items of number `instance_id` of so many instances alone."""
        if instance_id >= num_of_instances:
            raise ValueError(
                f"apply_sharding: there are {num_of_instances} instances, counted from 0, so none "
                f"is number {instance_id}."
            )
        default = SHARDING_PRIORITIES.DEFAULT
        if self.groups and (sharding_group == default) != (default in self.groups):
            raise RuntimeError(
                "apply_sharding: the group DEFAULT stands for all others; use it alone, or not."
            )
        self.groups[sharding_group] = (num_of_instances, instance_id)

    @property
    def _share(self) -> tuple[int, int]:
        """Every how many-th item, from which on: the groups one inside the other."""
        step, first = 1, 0
        for group in sorted(self.groups):
            if self.sharding_group_filter in (None, group):
                count, number = self.groups[group]
                first += step * number
                step *= count
        return step, first

    def __iter__(self) -> Iterator[Any]:
        step, first = self._share
        for place, item in enumerate(self.source_datapipe):
            if place % step == first:
                yield item

    def __len__(self) -> int:
        step, first = self._share
        return len(range(first, len(self.source_datapipe), step))


__dir__ = _only_public(globals())
