"""The pipe that changes the order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe
from pullback.utils.data.datapipes.shuffling import Shuffling

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(Shuffling, IterDataPipe[Any]):
    """The items in random order, one after the other; their keys are 0, 1, ... or those given.

    >>> from pullback.utils.data.datapipes.map import SequenceWrapper, Shuffler
    >>> sorted(Shuffler(SequenceWrapper(range(4))))
    [0, 1, 2, 3]
    """

    def __init__(self, datapipe: Any, *, indices: list[Any] | None = None) -> None:
        super().__init__()
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        self._order = self.indices

    def reset(self) -> None:
        """Draw the order of an iteration."""
        super().reset()
        self._order = self.indices
        if self._enabled:
            self._order = self._rng.sample(self.indices, len(self.indices))[::-1]  # as torch

    def __iter__(self) -> Iterator[Any]:
        for key in self._order:
            yield self.datapipe[key]


# Not by the decorator: it is a method of pipes with keys, and gives one without.
MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)

__dir__ = _only_public(globals())
