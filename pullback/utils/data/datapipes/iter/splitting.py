"""Pipes of one pipe: copies of it, or parts of it by class, which read it once and share a buffer.

The parts go in rounds: when one that has begun a round is iterated over again, a new round begins,
and the iterators of the old one end.
"""

from __future__ import annotations

import copy as copying
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from pullback.core import origin
from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from pullback.utils.data.datapipes.utils.common import warn_of_local

__all__ = ["DemultiplexerIterDataPipe", "ForkerIterDataPipe"]


def _checked_count(num_instances: int) -> int:
    if num_instances < 1:
        raise ValueError(f"num_instances must be positive, got {num_instances}.")
    return num_instances


def _checked_buffer(name: str, buffer_size: int) -> int:
    if buffer_size < 0:
        warnings.warn(
            f"{name}: a buffer without limit may hold all items at once; give buffer_size.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
    return buffer_size


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe[Any]):
    """Several pipes with the same items, as a list; what the slowest has not read is kept.

    >>> from pullback.utils.data.datapipes.iter import Forker, IterableWrapper
    >>> one, two = Forker(IterableWrapper(range(3)), 2)
    >>> list(one), list(two)
    ([0, 1, 2], [0, 1, 2])
    """

    def __new__(
        cls, datapipe: Any, num_instances: int, buffer_size: int = 1000, copy: Any = None
    ) -> Any:
        """The children; with one instance there is nothing to share."""
        if _checked_count(num_instances) == 1:
            return datapipe
        shared = _Forked(datapipe, num_instances, _checked_buffer("fork", buffer_size), copy)
        return [_Part(shared, number) for number in range(num_instances)]


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe[Any]):
    """A pipe for each class of items, as a list; items that are not asked for yet are kept.

    >>> from pullback.utils.data.datapipes.iter import Demultiplexer, IterableWrapper
    >>> even, odd = Demultiplexer(IterableWrapper(range(5)), 2, lambda n: n % 2)
    >>> list(even), list(odd)
    ([0, 2, 4], [1, 3])
    """

    def __new__(
        cls,
        datapipe: Any,
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        """The children."""
        _checked_count(num_instances)
        warn_of_local(classifier_fn)
        size = _checked_buffer("demux", buffer_size)
        shared = _Sorted(datapipe, num_instances, size, classifier_fn, drop_none)
        return [_Part(shared, number) for number in range(num_instances)]


class _Shared:
    """A pipe that several read: each has a queue of what it has still to get."""

    name = ""

    def __init__(self, datapipe: Any, count: int, buffer_size: int) -> None:
        self.main_datapipe, self.num_instances, self.buffer_size = datapipe, count, buffer_size
        self.round = 0
        self._clear()

    def _clear(self) -> None:
        self.source: Iterator[Any] | None = None
        self.ended = False
        self.queues: list[deque[Any]] = [deque() for _ in range(self.num_instances)]
        self.exhausted = [False] * self.num_instances

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in ("source", "ended", "queues", "exhausted"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._clear()

    def joined(self, own_round: int) -> int:
        """The round that a part is in once it begins to read; a new one if it was in this."""
        if own_round == self.round:
            if self.source is not None and not all(self.exhausted):
                warnings.warn(
                    f"{self.name}: a part is read from its beginning again while others have not "
                    "ended; they all begin anew.",
                    UserWarning,
                    stacklevel=origin.stacklevel(),
                )
            self._clear()
            self.round += 1
        return self.round

    def next_of(self, number: int) -> Any:
        """The next item of a part; StopIteration at its end."""
        queue = self.queues[number]
        while not queue:
            if self.source is None and not self.ended:
                self.source = iter(self.main_datapipe)
            try:
                item = next(self.source or iter(()))
            except StopIteration:
                self.ended = self.exhausted[number] = True
                raise
            self._put(item, number)
        return queue.popleft()

    def _put(self, item: Any, asked_by: int) -> None:
        raise NotImplementedError

    def _refuse_overflow(self) -> None:
        raise BufferError(
            f"{self.name}: one part is more than {self.buffer_size} items ahead of another. Read "
            "them side by side, or give a larger buffer_size."
        )


class _Forked(_Shared):
    name = "fork"

    def __init__(self, datapipe: Any, count: int, buffer_size: int, copy: Any) -> None:
        super().__init__(datapipe, count, buffer_size)
        ways = {None: lambda item: item, "shallow": copying.copy, "deep": copying.deepcopy}
        if copy not in ways:
            raise ValueError(f"fork: copy is None, 'shallow' or 'deep', got {copy!r}.")
        self.copy = copy

    def _put(self, item: Any, asked_by: int) -> None:
        if self.copy is None:
            items = [item] * self.num_instances
        else:
            copied = copying.copy if self.copy == "shallow" else copying.deepcopy
            items = [copied(item) for _ in self.queues]
        for queue, one in zip(self.queues, items, strict=True):
            queue.append(one)
        if 0 <= self.buffer_size < max(len(queue) for queue in self.queues):
            self._refuse_overflow()

    def __len__(self) -> int:
        return len(self.main_datapipe)


class _Sorted(_Shared):
    name = "demux"

    def __init__(
        self, datapipe: Any, count: int, buffer_size: int, classifier: Any, drop_none: bool
    ) -> None:
        super().__init__(datapipe, count, buffer_size)
        self.classifier_fn, self.drop_none = classifier, drop_none

    def _put(self, item: Any, asked_by: int) -> None:
        kind = self.classifier_fn(item)
        if kind is None and self.drop_none:
            return
        if kind is None or not 0 <= kind < self.num_instances:
            raise ValueError(
                f"demux: the class of an item is a number from 0 to {self.num_instances - 1}, got "
                f"{kind!r}." + " Use drop_none=True to leave such items out." * (kind is None)
            )
        self.queues[kind].append(item)
        kept = sum(len(queue) for queue in self.queues) - (kind == asked_by)
        if 0 <= self.buffer_size < kept:
            self._refuse_overflow()


class _Part(IterDataPipe[Any]):
    """One of the pipes that fork and demux give."""

    def __init__(self, main_datapipe: _Shared, instance_id: int) -> None:
        self.main_datapipe, self.instance_id = main_datapipe, instance_id
        self.round = 0

    def __iter__(self) -> Iterator[Any]:
        # Not in a generator: the round begins when the iterator is made.
        self.round = self.main_datapipe.joined(self.round)
        return self._items(self.round)

    def _items(self, own: int) -> Iterator[Any]:
        shared = self.main_datapipe
        while True:
            if shared.round != own:
                raise RuntimeError(
                    f"This iterator has ended: another part of the same {shared.name} was read "
                    "from its beginning since."
                )
            try:
                item = shared.next_of(self.instance_id)
            except StopIteration:
                return
            yield item

    def __len__(self) -> int:
        return len(self.main_datapipe)  # type: ignore[arg-type]  # TypeError for demux, as torch


__dir__ = _only_public(globals())
