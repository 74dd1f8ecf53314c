"""Pipes of several pipes: after one another, in turn, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from pullback.utils.data.datapipes.iter.splitting import (
    DemultiplexerIterDataPipe,
    ForkerIterDataPipe,
)

__all__ = [
    "ConcaterIterDataPipe",
    "DemultiplexerIterDataPipe",
    "ForkerIterDataPipe",
    "MultiplexerIterDataPipe",
    "ZipperIterDataPipe",
]


def _checked(name: str, datapipes: tuple[Any, ...]) -> tuple[Any, ...]:
    if not datapipes and name != "zip":  # nothing side by side is nothing, as Python's zip() says
        raise ValueError(f"{name}: there is no pipe to read.")
    for one in datapipes:
        if not isinstance(one, IterDataPipe):
            raise TypeError(f"{name}: inputs must be IterDataPipes, got {type(one).__name__}.")
    return datapipes


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe[Any]):
    """The items of the first pipe, then of the second, and so on.

    >>> from pullback.utils.data.datapipes.iter import Concater, IterableWrapper
    >>> list(Concater(IterableWrapper("ab"), IterableWrapper("c")))
    ['a', 'b', 'c']
    """

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = _checked("concat", datapipes)

    def __iter__(self) -> Iterator[Any]:
        for one in self.datapipes:
            yield from one

    def __len__(self) -> int:
        return sum(len(one) for one in self.datapipes)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe[Any]):
    """An item of each pipe in turn, until one of them has ended.

    >>> from pullback.utils.data.datapipes.iter import IterableWrapper, Multiplexer
    >>> list(Multiplexer(IterableWrapper("abc"), IterableWrapper("xy")))
    ['a', 'x', 'b', 'y']
    """

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = _checked("mux", datapipes)

    def __iter__(self) -> Iterator[Any]:
        for row in zip(*self.datapipes, strict=False):
            yield from row

    def __len__(self) -> int:
        return min(len(one) for one in self.datapipes) * len(self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe[tuple[Any, ...]]):
    """Tuples of an item of each pipe, until one of them has ended.

    >>> from pullback.utils.data.datapipes.iter import IterableWrapper, Zipper
    >>> list(Zipper(IterableWrapper("ab"), IterableWrapper(range(3))))
    [('a', 0), ('b', 1)]
    """

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = _checked("zip", datapipes)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(len(one) for one in self.datapipes)


__dir__ = _only_public(globals())
