"""The order of a backward pass, before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pullback.autograd.graph.table import as_html, as_text
from pullback.core.dtype import from_numpy_dtype
from pullback.core.node import AccumulateGrad, Node
from pullback.core.origin import Origin
from pullback.engine.arguments import described_pass
from pullback.engine.ordered import visits_of

__all__ = ["Plan", "Step", "plan"]

_HEADER = ("step", "node", "gradient", "does", "line", "source")


@dataclass(frozen=True, slots=True)
class Step:
    """One stop of a pass: a node that runs, a leaf that is added to, or a gradient captured."""

    number: int  # from 1
    node: Node
    does: str  # "run", "accumulate" or "capture"

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
        return str(self.number), self.name, self._gradient(), self.does, place, source


def _sizes(node: Node) -> list[Any]:
    known = node._g_sizes or ((node._g_shape, node._g_dtype),)
    return [size for size in known if size is not None]


def _shown(origin: Origin | None) -> tuple[str, str]:
    return ("", "") if origin is None else (str(origin), origin.source)


class Plan:
    """The steps of a pass in their order; prints as a table. It keeps the graph alive."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __getitem__(self, index: int) -> Step:
        return self.steps[index]

    def _title(self) -> str:
        leaves = sum(step.does == "accumulate" for step in self.steps)
        return f"backward pass: {len(self) - leaves} nodes, {leaves} leaves"

    def __repr__(self) -> str:
        return as_text(self._title(), _HEADER, [step._cells() for step in self.steps])

    def _repr_html_(self) -> str:
        return as_html(self._title(), _HEADER, [step._cells() for step in self.steps])


def plan(tensors: Any, inputs: Any = None, *, accumulate: bool = True) -> Plan:
    """The order in which backward() from `tensors` would run; nothing runs and nothing is freed.

    With `inputs`, that of `backward(inputs=...)`, or of `grad()` if `accumulate` is False.

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
    return Plan([Step(at, node, _does(node, runs)) for at, (node, runs) in enumerate(visits, 1)])


def _does(node: Node, runs: bool) -> str:
    if not runs:
        return "capture"
    return "accumulate" if isinstance(node, AccumulateGrad) else "run"
