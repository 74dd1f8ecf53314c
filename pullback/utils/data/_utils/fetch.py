"""From the sampler's places to a batch; the same in the main process and in workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from pullback.utils.data._utils.rows import gives_rows, rows_at

Fetcher = Callable[[Any], Any]


def fetcher_of(
    dataset: Any,
    *,
    iterable: bool,
    batched: bool,
    collate_fn: Callable[[Any], Any],
    drop_last: bool,
) -> Fetcher:
    """A function from what the sampler gives to what the loader gives.

    That of an iterable dataset raises StopIteration at its end.
    """
    if iterable:
        items = iter(dataset)
        if batched:
            return lambda places: collate_fn(_next_items(items, len(places), drop_last))
        return lambda place: collate_fn(next(items))
    if not batched:
        return lambda place: collate_fn(dataset[place])
    together = getattr(dataset, "__getitems__", None)
    if callable(together):
        return lambda places: collate_fn(together(places))
    if gives_rows(dataset, collate_fn):
        return lambda places: _rows_or_items(dataset, places, collate_fn)
    return lambda places: collate_fn([dataset[place] for place in places])


def _rows_or_items(dataset: Any, places: Any, collate_fn: Callable[[Any], Any]) -> Any:
    rows = rows_at(dataset.tensors, places)
    return collate_fn([dataset[place] for place in places]) if rows is None else rows


def _next_items(items: Iterator[Any], count: int, drop_last: bool) -> list[Any]:
    batch = list(islice(items, count))
    if not batch or (drop_last and len(batch) < count):
        raise StopIteration
    return batch
