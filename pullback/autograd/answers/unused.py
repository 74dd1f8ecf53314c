"""Which parameters a loss does not depend on, and where the way from them ends."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pullback.autograd.answers import cuts
from pullback.autograd.answers.modules import named_tensors
from pullback.autograd.graph.table import as_html, as_text
from pullback.core.node import AccumulateGrad, Leaf, Node, Output, node_and_number, walk
from pullback.core.origin import Origin
from pullback.core.tensor import Tensor
from pullback.core.view import View, edge_of

__all__ = ["Unused", "UnusedParameter", "unused"]

_HEADER = ("parameter", "shape", "last operator", "line", "why")


@dataclass(frozen=True, slots=True)
class UnusedParameter:
    """A parameter that the loss does not lead to."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    operator: str  # the last one it reached; "" if none is left
    origin: Origin | None  # of that operator
    why: str

    def _cells(self) -> tuple[str, ...]:
        place = "" if self.origin is None else str(self.origin)
        return self.name, str(list(self.shape)), self.operator, place, self.why


class Unused:
    """Unused parameters in the model's order; prints as a table, and is true if there are any."""

    def __init__(self, entries: list[UnusedParameter], count: int, frozen: int) -> None:
        self.entries = entries
        self.count = count
        self.frozen = frozen

    @property
    def names(self) -> list[str]:
        """Of the parameters."""
        return [entry.name for entry in self.entries]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[UnusedParameter]:
        return iter(self.entries)

    def __getitem__(self, index: int) -> UnusedParameter:
        return self.entries[index]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def _title(self) -> str:
        frozen = f"; {self.frozen} more are frozen (requires_grad=False)" if self.frozen else ""
        return f"{len(self)} of {self.count} parameters get no gradient from this loss{frozen}"

    def __repr__(self) -> str:
        if not self.entries:
            return self._title()
        return as_text(self._title(), _HEADER, [one._cells() for one in self.entries])

    def _repr_html_(self) -> str:
        return as_html(self._title(), _HEADER, [one._cells() for one in self.entries])


def unused(loss: Any, params: Any) -> Unused:
    """The parameters that backward() from `loss` would leave without a gradient, and why.

    `params` is a module, a dict of tensors, or pairs of name and tensor; `loss` a tensor, or
    several. For each parameter that was used at all, the last operator that its values reached is
    named, with its line, and what cut the way from there if that is known. Where nothing is left of
    what was computed from it, the source of the model's methods and of the functions that made the
    loss tells which `detach()` or `no_grad()` its values come to.

    >>> import pullback as torch
    >>> model = torch.nn.ModuleDict({"a": torch.nn.Linear(2, 1), "b": torch.nn.Linear(2, 1)})
    >>> loss = model["a"](torch.ones(1, 2)).sum()
    >>> torch.autograd.graph.unused(loss, model).names
    ['b.weight', 'b.bias']
    """
    named = named_tensors(params)
    reached = reached_leaves(loss)
    wanted = [(name, tensor) for name, tensor in named if tensor.requires_grad]
    entries = [_examined(name, one) for name, one in wanted if id(one) not in reached]
    if any(not entry.operator for entry in entries):
        entries = _with_cuts(entries, loss, params)
    return Unused(entries, len(wanted), len(named) - len(wanted))


def reached_leaves(roots: Any) -> set[int]:
    """Ids of the leaves that a backward pass from these roots adds to."""
    listed = [roots] if isinstance(roots, Tensor) else list(roots)
    edges = (node_and_number(edge_of(root))[0] for root in listed)
    return {id(node.variable) for node in walk(edges) if isinstance(node, AccumulateGrad)}


def _with_cuts(entries: list[UnusedParameter], loss: Any, params: Any) -> list[UnusedParameter]:
    """The same, with the cuts that the source shows for those of which no graph is left."""
    listed = [loss] if isinstance(loss, Tensor) else list(loss)
    nodes = walk(node_and_number(edge_of(root))[0] for root in listed)
    made = dict.fromkeys(getattr(node, "_code", None) for node in nodes)  # leaves have none
    codes = [code for code in made if code is not None]
    codes.sort(key=lambda code: code.co_name == "<module>")  # its source has that of functions
    modules = dict(params.named_modules()) if hasattr(params, "named_modules") else None
    told = []
    for entry in entries:
        cut = None
        if not entry.operator:
            cut = (
                cuts.cut_of_name(codes, entry.name)
                if modules is None
                else cuts.cut_within(modules, entry.name, codes)
            )
        why = f"{cut} takes what is computed from it out of the graph" if cut else entry.why
        told.append(replace(entry, why=why))
    return told


_NO_GRAPH = (
    "no graph that is alive has it: it was not used, or what was computed from it is gone, or that "
    "was computed under no_grad"
)


def _examined(name: str, parameter: Tensor) -> UnusedParameter:
    shape = tuple(parameter.shape)
    dtype = str(parameter.dtype).removeprefix("torch.")
    mark = parameter._leaf_mark()
    accumulator = mark() if mark.__class__ is Leaf else None
    tops = _tops(accumulator) if accumulator is not None else []
    if not tops:
        return UnusedParameter(name, shape, dtype, "", None, _NO_GRAPH)
    top = max(tops, key=lambda node: -node._seq)  # the newest
    return UnusedParameter(name, shape, dtype, type(top).name(top), top._origin, _why(top))


def _tops(start: Node) -> list[Any]:
    """The last operators that lead to a node: those that no other's edges lead to.

    Nodes know where gradients go, not where they come from; the collector knows who holds them.
    """
    tops, seen, stack = [], {start}, [start]
    while stack:
        node = stack.pop()
        above = _users(node)
        if not above and node is not start:
            tops.append(node)
        for one in above:
            if one not in seen:
                seen.add(one)
                stack.append(one)
    return tops


def _users(node: Node) -> list[Any]:
    holders: list[Any] = [node]
    holders += [one for one in gc.get_referrers(node) if type(one) is Output]
    tuples = [one for one in gc.get_referrers(*holders) if type(one) is tuple]
    if not tuples:
        return []
    return [one for one in gc.get_referrers(*tuples) if isinstance(one, Node)]


def _why(top: Any) -> str:
    """What became of the tensor that a node made."""
    tensors = [one for one in gc.get_referrers(top) if isinstance(one, Tensor)]
    tensors += [
        tensor
        for view in gc.get_referrers(top)
        if type(view) is View
        for tensor in gc.get_referrers(view)
        if isinstance(tensor, Tensor)
    ]
    if not tensors:
        return "its result is kept by a graph that this loss is no part of"
    for tensor in tensors:
        for alias in gc.get_referrers(tensor._array):
            cut = alias._cut if isinstance(alias, Tensor) else None
            if cut is not None and cut.code is not None:
                place = Origin(cut.code, cut.lasti)
                return f"{cut.how} at {place} took the result out of the graph"
    return "nothing recorded was computed from its result: it was left unused, or cut off"
