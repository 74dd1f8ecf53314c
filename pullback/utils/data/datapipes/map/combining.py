"""Pipes of several pipes: after one another, side by side."""

from __future__ import annotations

from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import MapDataPipe, functional_datapipe

__all__ = ["ConcaterMapDataPipe", "ZipperMapDataPipe"]


def _checked(name: str, datapipes: tuple[Any, ...]) -> tuple[Any, ...]:
    if not datapipes:
        raise ValueError(f"{name}: there is no pipe to read.")
    for one in datapipes:
        if not isinstance(one, MapDataPipe):
            raise TypeError(f"{name}: every input must be a MapDataPipe, got {type(one).__name__}.")
        if not hasattr(type(one), "__len__"):
            raise TypeError(f"{name}: every input must have a length; {one!r} has none.")
    return datapipes


@functional_datapipe("concat")
class ConcaterMapDataPipe(MapDataPipe[Any]):
    """The items of the first pipe, then of the second, and so on.

    >>> from pullback.utils.data.datapipes.map import Concater, SequenceWrapper
    >>> Concater(SequenceWrapper("ab"), SequenceWrapper("c"))[2]
    'c'
    """

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = _checked("concat", datapipes)

    def __getitem__(self, index: int) -> Any:
        place = index
        for one in self.datapipes:
            if place < len(one):
                return one[place]
            place -= len(one)
        raise IndexError(f"concat: there is no item {index} among {len(self)}.")

    def __len__(self) -> int:
        return sum(len(one) for one in self.datapipes)


@functional_datapipe("zip")
class ZipperMapDataPipe(MapDataPipe[tuple[Any, ...]]):
    """Tuples of an item of each pipe.

    >>> from pullback.utils.data.datapipes.map import SequenceWrapper, Zipper
    >>> Zipper(SequenceWrapper("ab"), SequenceWrapper([1, 2]))[0]
    ('a', 1)
    """

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = _checked("zip", datapipes)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        if index >= len(self):
            raise IndexError(f"zip: the shortest pipe has {len(self)} items, so none is {index}.")
        return tuple(one[index] for one in self.datapipes)

    def __len__(self) -> int:
        return min(len(one) for one in self.datapipes)


__dir__ = _only_public(globals())
