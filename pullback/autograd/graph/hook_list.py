"""Which hooks a backward pass will call, in order, and who registered them where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pullback.autograd.function.saved import FromHook
from pullback.autograd.graph.order import Step, plan
from pullback.autograd.graph.table import as_html, as_text
from pullback.core.hooks import HookTable
from pullback.core.node import AccumulateGrad
from pullback.core.origin import Origin
from pullback.core.saved import Packed

__all__ = ["HookList", "ListedHook", "hooks"]

_HEADER = ("step", "node", "module", "hook", "function", "registered", "source")


@dataclass(frozen=True, slots=True)
class ListedHook:
    """One call of a user's function in a pass."""

    step: int  # of the plan
    node: Any
    kind: str
    function: Any  # None for retain_grad()
    # The user's line that registered it; for unpack hooks, the one whose value was packed.
    registered: Origin | None
    module: str = ""  # `body.2: Linear(9, 2)`, or a parameter's name, where params were given

    def _cells(self) -> tuple[str, ...]:
        place = self.registered
        return (
            str(self.step),
            type(self.node).__name__,
            self.module,
            self.kind,
            _described(self.function),
            "" if place is None else str(place),
            "" if place is None else place.source,
        )


def _described(function: Any) -> str:
    if function is None:
        return ""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", None) or repr(function)
    return str(name) if code is None else f"{name} ({Origin(code, 0)})"


class HookList:
    """Hooks in the order in which they will be called; prints as a table."""

    def __init__(self, entries: list[ListedHook]) -> None:
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[ListedHook]:
        return iter(self.entries)

    def __getitem__(self, index: int) -> ListedHook:
        return self.entries[index]

    def _title(self) -> str:
        return f"{len(self)} hooks will be called"

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        rows = [one._cells() for one in self.entries]
        if any(row[2] for row in rows):
            return _HEADER, rows
        return (*_HEADER[:2], *_HEADER[3:]), [(*row[:2], *row[3:]) for row in rows]

    def __repr__(self) -> str:
        return as_text(self._title(), *self._rows())

    def _repr_html_(self) -> str:
        return as_html(self._title(), *self._rows())


def hooks(
    tensors: Any, inputs: Any = None, *, accumulate: bool = True, params: Any = None
) -> HookList:
    """The hooks that backward() from `tensors` would call, in order; the arguments are `plan`'s.

    >>> import pullback as torch
    >>> x = torch.ones(3, requires_grad=True)
    >>> y = x * 2
    >>> handle = y.register_hook(print)
    >>> [(one.kind, one.function) for one in torch.autograd.graph.hooks(y.sum())]
    [('tensor hook', <built-in function print>)]
    """
    steps = plan(tensors, inputs, accumulate=accumulate, params=params)
    return HookList(
        [
            ListedHook(step.number, step.node, *one, step.module)
            for step in steps
            for one in _at(step)
        ]
    )


_Found = tuple[str, Any, Origin | None]


def _at(step: Step) -> Iterator[_Found]:
    node = step.node
    cold = node._cold
    leaf = node.variable if isinstance(node, AccumulateGrad) else None
    if leaf is not None:
        yield from _table("tensor hook", leaf._leaf_hooks)
    elif cold is not None:
        for table in (cold.tensor_hooks or {}).values():
            yield from _table("tensor hook", table)
        for reference in (cold.retained or {}).values():
            if reference() is not None:
                yield "retain_grad", None, None
    if step.does == "capture":
        return
    if cold is not None:
        yield from _table("node pre-hook", cold.pre_hooks)
    yield from _unpacking(node)
    if leaf is not None:
        yield from _table("post-accumulate hook", leaf._post_accumulate_grad_hooks)
    if cold is not None:
        yield from _table("node post-hook", cold.post_hooks)


def _table(kind: str, table: Any) -> Iterator[_Found]:
    for number, function in (table or {}).items():
        place = table.origin(number) if isinstance(table, HookTable) else None
        yield kind, function, place


def _unpacking(node: Any) -> Iterator[_Found]:
    """The unpack hooks of what a node saved, in the order in which it reads its values."""
    inner = getattr(node, "inner", None)
    if inner is not None:  # a write to a view runs the written operator's node
        yield from _unpacking(inner)
    for packed in (*_of_operator(node), *_of_function(node)):
        yield "unpack hook", packed.unpack_hook, node._origin


def _of_operator(node: Any) -> Iterator[Packed]:
    kept = getattr(type(node), "plan", None)
    if kept is None:
        return
    for name in (*(param.name for param in kept.inputs), *kept.outputs):
        several = len(node._edges) != len(kept.edges)  # a sequence of tensors has one rule
        if several or any(node._edges[user] is not None for user in kept.users(name)):
            yield from _packed(getattr(node, "s_" + name))


def _of_function(node: Any) -> Iterator[Packed]:
    saved = getattr(node, "_saved", None) if node._by_user else None
    if isinstance(saved, list):
        yield from (one.packed for one in saved if isinstance(one, FromHook))


def _packed(value: Any) -> Iterator[Packed]:
    for one in value if type(value) is tuple else (value,):
        if type(one) is Packed:
            yield one
