"""Pipes that apply a function to each item."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.utils.data._utils.collate import default_collate
from pullback.utils.data.datapipes.datapipe import IterDataPipe, functional_datapipe
from pullback.utils.data.datapipes.utils.common import validate_input_col, warn_of_local

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[Any]):
    """A function of each item, or of some columns of it.

    >>> from pullback.utils.data.datapipes.iter import IterableWrapper, Mapper
    >>> list(Mapper(IterableWrapper([(1, 2), (3, 4)]), lambda n: -n, input_col=1))
    [(1, -2), (3, -4)]
    """

    def __init__(
        self, datapipe: Any, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None
    ) -> None:
        warn_of_local(fn)
        self.datapipe, self.fn, self.input_col = datapipe, fn, input_col
        if input_col is None and output_col is not None:
            raise ValueError("map: output_col is for a function of columns; give input_col too.")
        if isinstance(output_col, list | tuple):
            if len(output_col) > 1:
                raise ValueError("map: output_col is one column; the function gives one result.")
            output_col = output_col[0]
        self.output_col = output_col
        validate_input_col(fn, input_col)

    def __iter__(self) -> Iterator[Any]:
        for item in self.datapipe:
            yield self._applied(item)

    def _applied(self, item: Any) -> Any:
        columns, target = self.input_col, self.output_col
        if columns is None:
            return self.fn(item)
        several = isinstance(columns, list | tuple)
        result = self.fn(*(item[c] for c in columns)) if several else self.fn(item[columns])
        changed: Any = list(item) if isinstance(item, tuple) else copy.copy(item)
        if target == -1:
            changed.append(result)
        elif target is not None:
            changed[target] = result
        elif several:  # the first column takes the result, the others go
            for column in sorted(columns[1:], reverse=True):
                del changed[column]
            changed[columns[0]] = result
        else:
            changed[columns] = result
        return tuple(changed) if isinstance(item, tuple) else changed

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Each item, a list of items, as one batch of tensors.

    >>> from pullback.utils.data.datapipes.iter import Collator, IterableWrapper
    >>> list(Collator(IterableWrapper([[1, 2], [3, 4]])))
    [tensor([1, 2]), tensor([3, 4])]
    """

    def __init__(
        self,
        datapipe: Any,
        conversion: Callable[..., Any] | None = default_collate,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        function = collate_fn or conversion
        if not callable(function):
            raise NotImplementedError(
                "collate: a table of conversions is for data frames, which are not here. Give a "
                "function (collate_fn)."
            )
        super().__init__(datapipe, function)


__dir__ = _only_public(globals())
