"""Samples brought to an edge: without dimensions, without elements, with indices that repeat.

They are made of those of the tables, so that an operator that joins a table is tried there too.
Many are calls that the operator refuses: a matrix product of numbers, a mean over a dimension that
is gone. Whoever uses them compares two answers, of which a refusal is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pullback.testing.samples import SampleInput, tensors_in

__all__ = ["EDGES", "edges_of"]


def _number(tensor: Any) -> Any:
    return tensor.reshape(-1)[0].clone() if tensor.numel() else tensor


def _repeated(tensor: Any) -> Any:
    is_index = str(tensor.dtype).endswith(("int32", "int64")) and tensor.numel() > 1
    return tensor.reshape(-1)[:1].expand(tensor.shape).clone() if is_index else tensor


class _Edge(NamedTuple):
    change: Callable[[Any], Any]
    which: str = "all"  # of the tensors of a call; or the "first" alone, or the "others"
    options: bool = False  # whether whole numbers and lists of them are brought to 0 and to ()


EDGES = {
    "0-d": _Edge(_number),
    "0-d along 0": _Edge(_number, options=True),
    "0-d first": _Edge(_number, "first"),
    "0-d others": _Edge(_number, "others"),
    "empty": _Edge(lambda tensor: tensor[:0].clone() if tensor.ndim else tensor),
    "empty rows": _Edge(lambda tensor: tensor[..., :0].clone() if tensor.ndim else tensor),
    "repeated": _Edge(_repeated),
}


def edges_of(sample: SampleInput) -> Iterator[tuple[str, SampleInput]]:
    """The edges that a sample can be brought to, each with the sample there.

    What it has there already, or has nothing of, is left out. Tensors are fresh leaves.

    >>> import pullback as torch
    >>> sample = torch.testing.SampleInput(torch.ones(2, 3), (torch.tensor([1, 0]),), {})
    >>> {edge: there.args[0].tolist() for edge, there in edges_of(sample)}["repeated"]
    [1, 1]
    """
    for name, edge in EDGES.items():
        there = _brought(sample, edge)
        pairs = zip(there.tensors, sample.tensors, strict=True)
        again = edge.options and repr(there) == repr(_brought(sample, EDGES["0-d"]))
        if not again and any(_differ(one, other) for one, other in pairs):
            yield name, there


def _brought(sample: SampleInput, edge: _Edge) -> SampleInput:
    def first(value: Any) -> Any:
        return _changed(value, edge if edge.which != "others" else _AS_IT_IS)

    def other(value: Any) -> Any:
        return _changed(value, edge if edge.which != "first" else _AS_IT_IS)

    args = tuple(map(other, sample.args))
    kwargs = {name: other(value) for name, value in sample.kwargs.items()}
    return SampleInput(first(sample.input), args, kwargs, sample.layout, smooth=False)


_AS_IT_IS = _Edge(lambda tensor: tensor.clone())


def _changed(value: Any, edge: _Edge) -> Any:
    if edge.options and type(value) is int:
        return 0
    if isinstance(value, tuple | list):
        if edge.options and all(type(one) is int for one in value):
            return type(value)()
        return type(value)(_changed(one, edge) for one in value)
    if not any(True for _ in tensors_in(value)):
        return value
    return edge.change(value.detach()).detach().requires_grad_(value.requires_grad)


def _differ(one: Any, other: Any) -> bool:
    return one.shape != other.shape or not bool((one.detach() == other.detach()).all())
