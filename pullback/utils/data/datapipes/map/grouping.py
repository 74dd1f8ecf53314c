"""The pipe of batches."""

from __future__ import annotations

from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.batching import Batching
from pullback.utils.data.datapipes.datapipe import DataChunk, MapDataPipe, functional_datapipe

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(Batching, MapDataPipe[DataChunk[Any]]):
    """Items in batches of one size; the last may be smaller, or is dropped.

    >>> from pullback.utils.data.datapipes.map import Batcher, SequenceWrapper
    >>> list(Batcher(SequenceWrapper(range(5)), 2))
    [[0, 1], [2, 3], [4]]
    """

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"batch: there is no batch {index} among {len(self)}.")
        start = index * self.batch_size
        places = range(start, min(start + self.batch_size, len(self.datapipe)))
        return self.wrapper_class([self.datapipe[place] for place in places])


__dir__ = _only_public(globals())
