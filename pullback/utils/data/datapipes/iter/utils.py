"""Where a chain begins: a pipe around something that can be iterated over."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["IterableWrapperIterDataPipe"]


class IterableWrapperIterDataPipe(IterDataPipe[Any]):
    """A pipe around an iterable, of which each iteration reads a copy.

    >>> from pullback.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(3)).map(lambda n: n * n))
    [0, 1, 4]
    """

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        yield from self._source()

    def _source(self) -> Iterable[Any]:
        if not self.deepcopy:
            return self.iterable
        try:
            return copy.deepcopy(self.iterable)
        except TypeError:  # a generator, or something that holds a file or a lock
            warnings.warn(
                f"IterableWrapper: {type(self.iterable).__name__} cannot be copied, so it is read "
                "itself: changes inside the pipe reach it.",
                UserWarning,
                stacklevel=2,
            )
            return self.iterable

    def __len__(self) -> int:
        return len(self.iterable)  # type: ignore[arg-type]  # it says so itself if it has none


__dir__ = _only_public(globals())
