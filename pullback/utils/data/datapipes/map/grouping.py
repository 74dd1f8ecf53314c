"""The pipe of batches."""

from __future__ import annotations

from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import DataChunk, MapDataPipe, functional_datapipe

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe[DataChunk[Any]]):
    """Items in batches of one size; the last may be smaller, or is dropped."""

    def __init__(
        self,
        datapipe: Any,
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Any = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError(f"batch: batch_size must be positive, got {batch_size}.")
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"batch: there is no batch {index} among {len(self)}.")
        start = index * self.batch_size
        places = range(start, min(start + self.batch_size, len(self.datapipe)))
        return self.wrapper_class([self.datapipe[place] for place in places])

    def __len__(self) -> int:
        length = len(self.datapipe)
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


__dir__ = _only_public(globals())
