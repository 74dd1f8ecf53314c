"""What a data pipe reads, and what that reads: the graph of pipes behind one."""

from __future__ import annotations

from typing import Any

from pullback.core.home import is_ours
from pullback.core.listing import only_public as _only_public
from pullback.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]

Graph = dict[int, tuple[Any, Any]]


def traverse_dps(datapipe: Any) -> Graph:
    """By identity, a pipe and the graph of the pipes that it holds.

    Example:
        >>> from pullback.utils.data.datapipes.iter import IterableWrapper
        >>> from pullback.utils.data.graph import traverse_dps
        >>> ((pipe, below),) = traverse_dps(IterableWrapper([1]).batch(2)).values()
        >>> pipe, [one for one, _ in below.values()]
        (BatcherIterDataPipe, [IterableWrapperIterDataPipe])
    """
    return _graph(datapipe, frozenset())


def traverse(datapipe: Any, only_datapipe: bool | None = None) -> Graph:
    """`traverse_dps` under its older name."""
    return traverse_dps(datapipe)


def _graph(pipe: Any, above: frozenset[int]) -> Graph:
    if id(pipe) in above:
        return {}
    inner: Graph = {}
    for held in _pipes_in(vars(pipe), set()):
        inner.update(_graph(held, above | {id(pipe)}))
    return {id(pipe): (pipe, inner)}


def _pipes_in(value: Any, seen: set[int]) -> list[Any]:
    """Pipes that a value holds, through containers and objects of the pipes' own modules."""
    if isinstance(value, IterDataPipe | MapDataPipe):
        return [value]
    if id(value) in seen:
        return []
    seen.add(id(value))
    if isinstance(value, dict):
        parts: Any = value.values()
    elif isinstance(value, list | tuple | set | frozenset):
        parts = value
    elif is_ours(type(value), "utils.data"):  # what parts of a fork share
        parts = vars(value).values() if hasattr(value, "__dict__") else ()
    else:
        return []
    return [pipe for part in parts for pipe in _pipes_in(part, seen)]


__dir__ = _only_public(globals())
