"""The order of a backward pass, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from pullback.autograd.answers.modules import ModuleNames, parameters_of
from pullback.autograd.answers.unused import unused
from pullback.autograd.graph.table import as_html, as_text
from pullback.core.dtype import from_numpy_dtype
from pullback.core.node import AccumulateGrad, Node
from pullback.core.origin import Origin
from pullback.engine.arguments import described_pass
from pullback.engine.ordered import visits_of

__all__ = ["Plan", "Step", "plan"]

_HEADER = ("step", "node", "gradient", "does", "module", "line", "source")


@dataclass(frozen=True, slots=True)
class Step:
    """One stop of a pass: a node that runs, a leaf that is added to, or a gradient captured."""

    number: int  # from 1
    node: Node
    does: str  # "run", "accumulate" or "capture"
    module: str = ""  # `body.2: Linear(9, 2)`, or a parameter's name, where params were given

    @property
    def name(self) -> str:
        """The node's class, without the prefix that `name()` puts before some."""
        return type(self.node).__name__

    @property
    def origin(self) -> Origin | None:
        """The user's line that made the node; None for leaves."""
        return self.node._origin

    def _gradient(self) -> str:
        return ", ".join(
            f"{str(from_numpy_dtype(dtype)).removeprefix('torch.')}{list(shape)}"
            for shape, dtype in _sizes(self.node)
        )

    def _cells(self) -> tuple[str, ...]:
        place, source = _shown(self.origin)
        return str(self.number), self.name, self._gradient(), self.does, self.module, place, source


def _sizes(node: Node) -> list[Any]:
    known = node._g_sizes or ((node._g_shape, node._g_dtype),)
    return [size for size in known if size is not None]


def _shown(origin: Origin | None) -> tuple[str, str]:
    return ("", "") if origin is None else (str(origin), origin.source)


class Plan:
    """The steps of a pass in their order; prints as a table. It keeps the graph alive."""

    def __init__(self, steps: list[Step], unreached: Any = ()) -> None:
        self.steps = steps
        self.unreached = unreached  # of the parameters given; see `unused`

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __getitem__(self, index: int) -> Step:
        return self.steps[index]

    def _title(self) -> str:
        leaves = sum(step.does == "accumulate" for step in self.steps)
        return f"backward pass: {len(self) - leaves} nodes, {leaves} leaves"

    def _rows(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and rows; unreached parameters last, the column of modules if it says anything."""
        rows = [step._cells() for step in self.steps]
        rows += [
            ("", "", str(list(one.shape)), "not reached", one.name, *_shown(one.origin))
            for one in self.unreached
        ]
        if any(row[4] for row in rows):
            return _HEADER, rows
        return _without_module(_HEADER), [_without_module(row) for row in rows]

    def __repr__(self) -> str:
        return as_text(self._title(), *self._rows())

    def _repr_html_(self) -> str:
        return as_html(self._title(), *self._rows())


def _without_module(row: tuple[str, ...]) -> tuple[str, ...]:
    return (*row[:4], *row[5:])


def plan(tensors: Any, inputs: Any = None, *, accumulate: bool = True, params: Any = None) -> Plan:
    """The order in which backward() from `tensors` would run; nothing runs and nothing is freed.

    With `inputs`, that of `backward(inputs=...)`, or of `grad()` if `accumulate` is False. `params`
    (a module, a dict, or pairs) gives steps their module and leaves their name; parameters that the
    pass does not reach stand at the end.

    >>> import pullback as torch
    >>> x = torch.ones(3, requires_grad=True)
    >>> w = torch.ones(3, requires_grad=True)
    >>> order = torch.autograd.graph.plan((x.exp() * w).sum())
    >>> [step.name for step in order]
    ['SumBackward0', 'MulBackward0', 'AccumulateGrad', 'ExpBackward0', 'AccumulateGrad']
    >>> order[2].node.variable is w
    True
    """
    visits = visits_of(described_pass(tensors, inputs, accumulates=accumulate))
    steps = [Step(at, node, _does(node, runs)) for at, (node, runs) in enumerate(visits, 1)]
    if params is None:
        return Plan(steps)
    params = parameters_of(params)
    names = ModuleNames(params)
    paths = names.paths(step.node for step in steps)
    named = [replace(step, module=_module(step, names, paths)) for step in steps]
    return Plan(named, unused(tensors, params) if inputs is None else ())


def _module(step: Step, names: ModuleNames, paths: dict[Node, str]) -> str:
    if isinstance(step.node, AccumulateGrad):
        return names.of_tensor(step.node.variable)
    return names.label(paths.get(step.node))


def _does(node: Node, runs: bool) -> str:
    if not runs:
        return "capture"
    return "accumulate" if isinstance(node, AccumulateGrad) else "run"
