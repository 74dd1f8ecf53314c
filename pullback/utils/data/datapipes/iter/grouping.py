"""Pipes of batches and groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.batching import Batching
from pullback.utils.data.datapipes.datapipe import DataChunk, IterDataPipe, functional_datapipe
from pullback.utils.data.datapipes.utils.common import warn_of_local

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(Batching, IterDataPipe[DataChunk[Any]]):
    """Items in batches of one size; the last may be smaller, or is dropped.

    >>> from pullback.utils.data.datapipes.iter import Batcher, IterableWrapper
    >>> list(Batcher(IterableWrapper(range(5)), 2))
    [[0, 1], [2, 3], [4]]
    """

    def __iter__(self) -> Iterator[Any]:
        batch = []
        for item in self.datapipe:
            batch.append(item)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe[Any]):
    """The items of batches, through so many levels of batches; -1: through all.

    >>> from pullback.utils.data.datapipes.iter import IterableWrapper, UnBatcher
    >>> list(UnBatcher(IterableWrapper([[1, 2], [3]])))
    [1, 2, 3]
    """

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        if self.unbatch_level < -1:
            raise ValueError(f"unbatch: unbatch_level is -1 or more, got {self.unbatch_level}.")
        for item in self.datapipe:
            yield from self._parts(item, self.unbatch_level)

    def _parts(self, item: Any, level: int) -> Iterator[Any]:
        inside = isinstance(item, list)
        if level == 0 or (level == -1 and not inside):
            yield item
            return
        if not inside:
            raise IndexError(
                f"unbatch: the items are not batches {self.unbatch_level} levels deep; use a "
                "smaller unbatch_level, or -1 for as deep as they are."
            )
        for part in item:
            yield from self._parts(part, -1 if level == -1 else level - 1)


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[Any]):
    """Items in groups of one key, from a buffer; when that is full the largest group leaves it.

    >>> from pullback.utils.data.datapipes.iter import Grouper, IterableWrapper
    >>> words = IterableWrapper(["ant", "bee", "ape"])
    >>> list(Grouper(words, group_key_fn=lambda word: word[0]))
    [['ant', 'ape'], ['bee']]
    """

    def __init__(
        self,
        datapipe: Any,
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        warn_of_local(group_key_fn)
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.buffer_size, self.group_size = buffer_size, group_size
        self.drop_remaining = drop_remaining
        if group_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError(
                f"groupby: group_size is positive and at most buffer_size ({buffer_size}), got "
                f"{group_size}."
            )
        if guaranteed_group_size is not None and not 0 < guaranteed_group_size <= (group_size or 0):
            raise AssertionError(
                "groupby: guaranteed_group_size is positive and at most group_size "
                f"({group_size}), got {guaranteed_group_size}."
            )
        self.guaranteed_group_size = guaranteed_group_size or group_size

    def __iter__(self) -> Iterator[Any]:
        groups: defaultdict[Any, list[Any]] = defaultdict(list)
        held = 0
        for item in self.datapipe:
            key = self.group_key_fn(item)
            groups[key].append(item)
            held += 1
            if len(groups[key]) == self.group_size:
                held -= self.group_size
                yield self._given(key, groups.pop(key))
            if held == self.buffer_size:
                largest = max(groups, key=lambda one: len(groups[one]))
                group = groups.pop(largest)
                held -= len(group)
                if self._large_enough(largest, group):
                    yield self._given(largest, group)
        for key in list(groups):
            yield self._given(key, groups.pop(key))

    def _large_enough(self, key: Any, group: list[Any]) -> bool:
        least = self.guaranteed_group_size
        if least is None or len(group) >= least:
            return True
        if self.drop_remaining:
            return False
        raise RuntimeError(
            f"groupby: the buffer of {self.buffer_size} is full, and the largest group, of key "
            f"{key!r}, has {len(group)} items of the {least} guaranteed. Use a larger buffer_size, "
            "or drop_remaining=True."
        )

    def _given(self, key: Any, group: list[Any]) -> Any:
        chunk: DataChunk[Any] = DataChunk(group)
        return (key, chunk) if self.keep_key else chunk


__dir__ = _only_public(globals())
