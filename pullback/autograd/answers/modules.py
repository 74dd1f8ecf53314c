"""Which module a node belongs to: `body.2: Linear(9, 2)` instead of a line that calls the model.

Nodes keep the user's line and nothing of modules, so that calls of modules cost nothing. A node
whose edge leads to a parameter belongs to that parameter's module; a node between two of one module
belongs to it too, and one between two modules to what holds both. Where calls were watched
(`name_modules`), all is exact. Modules are known by their methods alone: their layer is above.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from pullback.core.node import AccumulateGrad, Node, node_and_number
from pullback.core.sequence import numbering, shown
from pullback.core.tensor import Tensor

__all__ = ["ModuleNames", "described", "name_modules", "named_tensors"]


def named_tensors(params: Any) -> list[tuple[str, Tensor]]:
    """Names and tensors of a module, a mapping or pairs; nothing of None."""
    if params is None:
        return []
    if hasattr(params, "named_parameters"):
        return list(params.named_parameters())
    if isinstance(params, Tensor):
        raise TypeError("params takes a module, a dict of tensors, or pairs of name and tensor.")
    pairs = params.items() if isinstance(params, Mapping) else params
    return [(name, tensor) for name, tensor in pairs if isinstance(tensor, Tensor)]


def parameters_of(params: Any) -> Any:
    """`params` as something that can be gone through again: pairs may come from a generator."""
    known = params is None or isinstance(params, Mapping | Tensor)
    return params if known or hasattr(params, "named_parameters") else list(params)


def described(module: Any) -> str:
    """`Linear(9, 2)`: the class, and the numbers that it was made with."""
    name = type(module).__name__
    if next(iter(module.children()), None) is not None:
        return name
    parts = []
    # Not at commas inside of brackets: `kernel_size=(3, 3)` is one part.
    for part in re.split(r", (?![^(]*\))", str(module.extra_repr())):
        key, given, value = part.partition("=")
        shown = value if given else key
        if shown not in ("True", "False", "") and (not given or key.startswith(_SIZES)):
            parts.append(shown)
    return f"{name}({', '.join(parts)})"


_SIZES = ("in_features", "out_features", "num_", "p", "negative_slope", "alpha", "dim", "kernel")


class _Span(NamedTuple):
    """One call: the numbers that nodes made in it lie between; they count down."""

    first: int
    last: int
    path: str


_watched: weakref.WeakKeyDictionary[Any, list[_Span]] = weakref.WeakKeyDictionary()


@contextmanager
def name_modules(model: Any) -> Iterator[None]:
    """Inside, calls of the model's parts are watched, so that every node can say whose it is.

    Without it, nodes are told by the parameters that they lead to.

    >>> import pullback as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
    >>> with torch.autograd.graph.name_modules(model):
    ...     loss = model(torch.ones(1, 2)).sum()
    >>> [step.module for step in torch.autograd.graph.plan(loss, params=model)][:2]
    ['', '1: Tanh()']
    """
    spans: list[_Span] = []
    handles = []
    for path, module in model.named_modules():
        before, after = _noting(path, spans)
        handles.append(module.register_forward_pre_hook(before))
        handles.append(module.register_forward_hook(after, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        _watched[model] = spans


def _noting(path: str, spans: list[_Span]) -> tuple[Any, Any]:
    entered: list[int] = []

    def before(module: Any, args: Any) -> None:
        entered.append(numbering.next())

    def after(module: Any, args: Any, result: Any) -> None:
        if entered:
            spans.append(_Span(entered.pop(), numbering.next(), path))

    return before, after


class ModuleNames:
    """The names of a model's parts and parameters, for the nodes of a graph.

    `params` is a module, or anything else that names tensors (then there are no modules).
    """

    def __init__(self, params: Any) -> None:
        self.tensors = {id(tensor): name for name, tensor in named_tensors(params)}
        modules = params.named_modules() if hasattr(params, "named_modules") else ()
        self.labels = {path: described(module) for path, module in modules}
        watched = hasattr(params, "named_modules") and _watched.get(params)
        self._spans: list[_Span] = watched or []

    def __bool__(self) -> bool:
        return bool(self.labels)

    def of_tensor(self, tensor: Any) -> str:
        """A parameter's name, or an empty string."""
        return self.tensors.get(id(tensor), "")

    def label(self, path: str | None) -> str:
        """`body.2: Linear(9, 2)`; nothing for what belongs to no part of the model."""
        if not path:
            return ""
        what = self.labels.get(path)
        return path if what is None else f"{path}: {what}"

    def paths(self, nodes: Iterable[Any]) -> dict[Node, str]:
        """The path of the module of each node; "" where none is known, or the whole model's."""
        listed = [node for node in nodes if isinstance(node, Node)]
        leaves = [node for node in listed if isinstance(node, AccumulateGrad)]
        others = sorted((n for n in listed if not isinstance(n, AccumulateGrad)), key=_age)
        found: dict[Node, str] = {leaf: self._owner(leaf.variable) or "" for leaf in leaves}
        if not self.labels:
            return {node: found.get(node, "") for node in listed}
        inside = [self._in_span(node) for node in others]
        if not any(inside):  # not watched, or another call was
            inside = _filled([self._by_parameter(node) for node in others])
        return found | dict(zip(others, inside, strict=True))

    def _owner(self, tensor: Any) -> str | None:
        name = self.tensors.get(id(tensor))
        return None if name is None else name.rpartition(".")[0]

    def _by_parameter(self, node: Any) -> str | None:
        owners = []
        seen = {node}
        stack = [node]
        while stack:  # a transposed weight is its module's as well
            for target, _ in map(node_and_number, stack.pop()._edges):
                if isinstance(target, AccumulateGrad):
                    owner = self._owner(target.variable)
                    if owner is not None:
                        owners.append(owner)
                elif target is not None and target not in seen and _only_parameter(target):
                    seen.add(target)
                    stack.append(target)
        return _common(owners) if owners else None

    @property
    def watched(self) -> bool:
        """Whether calls of the model's parts were watched."""
        return bool(self._spans)

    def path_at(self, number: int) -> str:
        """The path of the module in whose call a node of this sequence number was made."""
        inner = [one for one in self._spans if shown(one.first) < number < shown(one.last)]
        return min(inner, key=lambda one: one.first - one.last).path if inner else ""

    def _in_span(self, node: Any) -> str:
        inner = [one for one in self._spans if one.last < node._seq < one.first]
        return min(inner, key=lambda one: one.first - one.last).path if inner else ""


def _age(node: Node) -> int:
    return -node._seq  # numbers count down


def _only_parameter(node: Any) -> bool:
    """Whether it does nothing but turn one leaf."""
    targets = [target for target, _ in map(node_and_number, node._edges) if target is not None]
    return len(targets) == 1 and isinstance(targets[0], AccumulateGrad)


def _filled(told: list[str | None]) -> list[str]:
    """What has no parameter lies between two that do: in what holds both."""
    before: list[str | None] = []
    last = None
    for one in told:
        last = last if one is None else one
        before.append(last)
    filled: list[str] = []
    following = None
    for one, earlier in zip(reversed(told), reversed(before), strict=True):
        following = following if one is None else one
        if one is not None:
            filled.append(one)
        elif earlier is None or following is None:
            filled.append("")
        else:
            filled.append(_common([earlier, following]))
    return filled[::-1]


def _common(paths: list[str]) -> str:
    """The path of the innermost module that holds all of these."""
    split = [path.split(".") if path else [] for path in paths]
    shared = []
    for parts in zip(*split, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)
