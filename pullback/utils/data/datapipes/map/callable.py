"""The pipe that applies a function to each item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import MapDataPipe, functional_datapipe
from pullback.utils.data.datapipes.utils.common import warn_of_local

__all__ = ["MapperMapDataPipe", "default_fn"]


def default_fn(data: Any) -> Any:
    """What is applied where nothing is said: each item stays."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe[Any]):
    """A function of each item.

    >>> from pullback.utils.data.datapipes.map import Mapper, SequenceWrapper
    >>> Mapper(SequenceWrapper([1, 2]), lambda n: n * 10)[1]
    20
    """

    def __init__(self, datapipe: Any, fn: Callable[[Any], Any] = default_fn) -> None:
        warn_of_local(fn)
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


__dir__ = _only_public(globals())
