"""Iterating over a loader in the process itself, and what that shares with workers."""

from __future__ import annotations

import warnings
from typing import Any

from pullback.utils.data._utils.fetch import fetcher_of
from pullback.utils.data._utils.pin_memory import pin_memory
from pullback.utils.data.pipes import begin_epoch, own_rank, shard, shared_seed
from pullback.utils.data.sampler import fresh_seed


class BaseIterator:
    """An epoch of a loader: asks the sampler for places and gives batches."""

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        self._persistent, self._pinned = loader.persistent_workers, loader.pin_memory
        self._reset(loader)
        # Drawn whether there are workers or not, so that they do not change what comes after.
        # Workers that stay draw on from their streams: the next epoch needs no seed.
        self._base_seed = fresh_seed(loader.generator)

    def _reset(self, loader: Any) -> None:
        """Begin an epoch."""
        self._shared_seed = shared_seed(loader)
        self._index_sampler = loader._index_sampler
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._expected = loader._told_length

    def __iter__(self) -> BaseIterator:
        return self

    def __len__(self) -> int:
        return len(self._index_sampler)

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        if self._expected is not None and self._num_yielded > self._expected:
            warnings.warn(
                f"DataLoader: the dataset ({type(self._dataset).__name__}) says that there are "
                f"{self._expected} batches, this is number {self._num_yielded}. With several "
                "workers, each must give its own part only: see get_worker_info().",
                UserWarning,
                stacklevel=2,
            )
        return pin_memory(data) if self._pinned else data


class SingleProcessIterator(BaseIterator):
    """Batches made one by one, when asked for."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if loader.timeout != 0:
            raise AssertionError(
                "DataLoader: timeout is for workers; without them it must be 0, not "
                f"{loader.timeout}."
            )
        shard(loader.dataset, rank=own_rank())
        begin_epoch(loader.dataset, self._shared_seed)
        self._fetch = fetcher_of(
            loader.dataset,
            iterable=loader._is_iterable,
            batched=loader._auto_collation,
            collate_fn=loader.collate_fn,
            drop_last=loader.drop_last,
        )

    def _next_data(self) -> Any:
        return self._fetch(self._next_index())
