"""Pipes that leave items out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from pullback.utils.data.datapipes.utils.common import validate_input_col, warn_of_local

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[Any]):
    """The items, or those with columns, of which a function is true.

    >>> from pullback.utils.data.datapipes.iter import Filter, IterableWrapper
    >>> list(Filter(IterableWrapper(range(6)), lambda n: n % 2 == 0))
    [0, 2, 4]
    """

    def __init__(self, datapipe: Any, filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        warn_of_local(filter_fn)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col
        validate_input_col(filter_fn, input_col)

    def __iter__(self) -> Iterator[Any]:
        for item in self.datapipe:
            if self._wanted(item):
                yield item

    def _wanted(self, item: Any) -> bool:
        columns = self.input_col
        if columns is None:
            wanted = self.filter_fn(item)
        elif isinstance(columns, list | tuple):
            wanted = self.filter_fn(*(item[column] for column in columns))
        else:
            wanted = self.filter_fn(item[columns])
        if isinstance(wanted, Tensor) and wanted.numel() == 1:
            wanted = wanted.item()
        if not isinstance(wanted, bool):
            raise ValueError(
                f"filter: the function answers True or False, not {type(wanted).__name__}; wrap "
                "its result in bool()."
            )
        return wanted


__dir__ = _only_public(globals())
