"""The pipe that changes the order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from pullback.utils.data.sampler import fresh_seed

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(IterDataPipe[Any]):
    """The items in random order, one after the other; their keys are 0, 1, ... or those given."""

    def __init__(self, datapipe: Any, *, indices: list[Any] | None = None) -> None:
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()
        self._order = self.indices

    def set_shuffle(self, shuffle: bool = True) -> ShufflerIterDataPipe:
        """Whether it shuffles at all."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> ShufflerIterDataPipe:
        """The seed of the next iteration; without, it is drawn from torch's generator."""
        self._seed = seed
        return self

    def reset(self) -> None:
        """Draw the order of an iteration."""
        self._order = self.indices
        if self._enabled:
            self._rng.seed(fresh_seed(None) if self._seed is None else self._seed)
            self._seed = None
            self._order = self._rng.sample(self.indices, len(self.indices))[::-1]  # as torch

    def __iter__(self) -> Iterator[Any]:
        for key in self._order:
            yield self.datapipe[key]

    def __len__(self) -> int:
        return len(self.datapipe)


# Not by the decorator: it is a method of pipes with keys, and gives one without.
MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)

__dir__ = _only_public(globals())
