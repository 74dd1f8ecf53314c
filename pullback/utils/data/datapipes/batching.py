"""What pipes of batches have in common, of items one after the other or by key."""

from __future__ import annotations

from typing import Any

from pullback.utils.data.datapipes.datapipe import DataChunk

__all__ = ["Batching"]


class Batching:
    """The settings of a pipe of batches, and how many there are."""

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

    def __len__(self) -> int:
        length = len(self.datapipe)
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)
