"""DistributedSampler: each process of several goes through its own part of a dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.operators.random.generator import Generator
from pullback.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """Every `num_replicas`-th place of the dataset, from `rank` on; all parts have equal length.

    Without `num_replicas` and `rank` the process group says them. Call `set_epoch` before each
    epoch, else all have the same order.

    Example:
        >>> from pullback.utils.data.distributed import DistributedSampler
        >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
        [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        num_replicas = _of_group("get_world_size") if num_replicas is None else num_replicas
        rank = _of_group("get_rank") if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"DistributedSampler: rank {rank} is not one of {num_replicas} ranks.")
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        length = len(dataset)
        self.num_samples = length // num_replicas if drop_last else math.ceil(length / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        from pullback.operators.random.tensors import randperm

        count = len(self.dataset)
        places = list(range(count))
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            places = randperm(count, generator=generator).tolist()
        if self.drop_last:
            places = places[: self.total_size]
        elif places:
            rounds = math.ceil(self.total_size / len(places))
            places = (places * rounds)[: self.total_size]
        if len(places) != self.total_size:
            raise AssertionError(
                f"DistributedSampler: {len(places)} places, not {self.total_size}: the dataset's "
                "length has changed."
            )
        return iter(places[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Tell which epoch comes: each is shuffled otherwise, the same way in all processes."""
        self.epoch = epoch


def _of_group(question: str) -> int:
    """What the process group says, if there is one."""
    try:
        from importlib import import_module

        distributed: Any = import_module("pullback.distributed")
        available = distributed.is_available()
    except ImportError:
        available = False
    if not available:
        raise RuntimeError(
            "DistributedSampler: there is no process group to ask; pass num_replicas and rank."
        )
    answer: int = getattr(distributed, question)()
    return answer


__dir__ = _only_public(globals())
