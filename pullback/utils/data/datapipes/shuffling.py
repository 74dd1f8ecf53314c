"""What pipes in random order have in common, of items one after the other or by key."""

from __future__ import annotations

import random
from typing import Any, Self

from pullback.utils.data.sampler import fresh_seed

__all__ = ["Shuffling"]


class Shuffling:
    """A generator of a pipe's own, seeded at the start of each iteration."""

    datapipe: Any

    def __init__(self) -> None:
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Whether it shuffles at all."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """The seed of the next iteration; without, it is drawn from torch's generator."""
        self._seed = seed
        return self

    def reset(self) -> None:
        """Seed the generator of an iteration."""
        if self._enabled:
            self._rng.seed(fresh_seed(None) if self._seed is None else self._seed)
            self._seed = None

    def __len__(self) -> int:
        return len(self.datapipe)
