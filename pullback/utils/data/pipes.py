"""What a loader does for data pipes: the seed all share, and the part of each worker."""

from __future__ import annotations

import sys
from typing import Any

from pullback.operators.random.generator import Generator
from pullback.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from pullback.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from pullback.utils.data.graph_settings import apply_random_seed, apply_sharding
from pullback.utils.data.sampler import fresh_seed

__all__ = ["begin_epoch", "is_pipe", "shard", "shared_seed"]


def is_pipe(dataset: Any) -> bool:
    """Whether a dataset is a data pipe of either kind."""
    return isinstance(dataset, IterDataPipe | MapDataPipe)


def shared_seed(loader: Any) -> int | None:
    """A seed for all pipes of an epoch, the same in every worker and rank; None for others."""
    if not isinstance(loader.dataset, IterDataPipe):
        return None
    seed = fresh_seed(loader.generator)
    group = _process_group()
    if group is None:
        return seed
    held = [seed]
    group.broadcast_object_list(held, src=0)
    return held[0]


def begin_epoch(dataset: Any, seed: int | None) -> None:
    """Seed the pipes of a dataset, before they are iterated over."""
    if seed is not None:
        apply_random_seed(dataset, Generator().manual_seed(seed))


def shard(dataset: Any, number: int = 0, workers: int = 1, rank: tuple[int, int] = (0, 1)) -> None:
    """Give the pipes of a worker its part: among ranks first, then among the workers of each."""
    if not is_pipe(dataset):
        return
    if rank[1] > 1:
        apply_sharding(dataset, rank[1], rank[0], SHARDING_PRIORITIES.DISTRIBUTED)
    if workers > 1 or rank[1] > 1:
        apply_sharding(dataset, workers, number, SHARDING_PRIORITIES.MULTIPROCESSING)


def own_rank() -> tuple[int, int]:
    """Number of this rank, and how many there are."""
    group = _process_group()
    return (0, 1) if group is None else (group.get_rank(), group.get_world_size())


def _process_group() -> Any:
    """`torch.distributed`, where a program has made a process group."""
    module: Any = sys.modules.get("pullback.distributed")
    return module if module is not None and module.is_initialized() else None
