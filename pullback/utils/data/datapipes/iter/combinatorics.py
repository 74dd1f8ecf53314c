"""Pipes that change the order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from pullback.utils.data.datapipes.shuffling import Shuffling
from pullback.utils.data.sampler import SequentialSampler

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]


class SamplerIterDataPipe(IterDataPipe[Any]):
    """What a sampler makes of a pipe with a length.

    >>> from pullback.utils.data.datapipes.iter import IterableWrapper, Sampler
    >>> list(Sampler(IterableWrapper([5, 6, 7])))
    [0, 1, 2]
    """

    def __init__(
        self,
        datapipe: Any,
        sampler: Any = SequentialSampler,
        sampler_args: tuple[Any, ...] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        self.datapipe = datapipe
        self.sampler = sampler(datapipe, *(sampler_args or ()), **(sampler_kwargs or {}))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(Shuffling, IterDataPipe[Any]):
    """Items in random order: a buffer of them, of which one is drawn each time.

    >>> from pullback.utils.data.datapipes.iter import IterableWrapper, Shuffler
    >>> sorted(Shuffler(IterableWrapper(range(4))))
    [0, 1, 2, 3]
    """

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        if buffer_size <= 0:
            raise AssertionError(f"shuffle: buffer_size must be positive, got {buffer_size}.")
        super().__init__()
        self.datapipe = datapipe.unbatch(unbatch_level) if unbatch_level else datapipe
        self.buffer_size = buffer_size

    def __iter__(self) -> Iterator[Any]:
        if not self._enabled:
            yield from self.datapipe
            return
        buffer: list[Any] = []
        for item in self.datapipe:
            if len(buffer) < self.buffer_size:
                buffer.append(item)
                continue
            place = self._rng.randint(0, len(buffer) - 1)
            drawn, buffer[place] = buffer[place], item
            yield drawn
        while buffer:
            yield buffer.pop(self._rng.randint(0, len(buffer) - 1))


__dir__ = _only_public(globals())
