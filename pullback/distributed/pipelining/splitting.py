"""A model made into stages: traced once, and cut where the model or its caller says.

What crosses a cut goes to the next stage and no further: a model whose later parts use what earlier
ones have computed, or the input itself, is refused with the name of that value.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.distributed.pipelining.stage import PipelineStage
from pullback.fx import GraphModule, Node, Tracer
from pullback.fx.passes.split_module import split_module
from pullback.nn.modules.container import ModuleList
from pullback.nn.modules.module import Module

__all__ = ["Pipe", "SplitPoint", "pipe_split", "pipeline"]


class SplitPoint(Enum):
    """Where a stage ends: before a module, or after it."""

    BEGINNING = 1
    END = 2


_tracing: ContextVar[Tracer | None] = ContextVar("_tracing", default=None)


def pipe_split() -> None:
    """In a model's `forward`: here a stage ends. Unless `pipeline` traces it, nothing is done.

    >>> from pullback.distributed.pipelining import pipe_split
    >>> pipe_split()
    """
    tracer = _tracing.get()
    if tracer is not None:
        tracer.create_node("call_function", pipe_split, (), {})


class _Tracer(Tracer):
    """Leaves modules at which the model is cut as they are."""

    def __init__(self, whole: Sequence[str]) -> None:
        super().__init__()
        self._whole = set(whole)

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        return module_qualified_name in self._whole or super().is_leaf_module(
            m, module_qualified_name
        )


@dataclass
class PipeInfo:
    """How many stages there are."""

    num_stages: int


class _Stage(Module):
    """A part of a graph, called with all that the part before returns, in its order."""

    def __init__(self, part: Module, places: Sequence[int]) -> None:
        super().__init__()
        self.part, self._places = part, tuple(places)

    def forward(self, *given: Any, **named: Any) -> Any:
        """Call the part."""
        return self.part(*[given[place] for place in self._places], **named)


class Pipe(Module):
    """A model in stages. Called itself, it runs all of them here."""

    def __init__(self, stages: Sequence[Module]) -> None:
        super().__init__()
        self.stages = ModuleList(stages)

    @property
    def num_stages(self) -> int:
        """How many stages there are."""
        return len(self.stages)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """All stages, one after the other."""
        for stage in self.stages:
            made = stage(*args, **kwargs)
            args, kwargs = made if isinstance(made, tuple) else (made,), {}
        return made

    def get_stage_module(self, stage_idx: int) -> Module:
        """One stage's part of the model."""
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"There is no stage {stage_idx} of {self.num_stages}.")
        found: Module = self.stages[stage_idx]
        return found

    def build_stage(
        self, stage_index: int, device: Any = "cpu", group: Any = None
    ) -> PipelineStage:
        """One stage, for a schedule."""
        module = self.get_stage_module(stage_index)
        return PipelineStage(module, stage_index, self.num_stages, device, group=group)

    def info(self) -> PipeInfo:
        """How many stages there are."""
        return PipeInfo(self.num_stages)


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Any = None,
) -> Pipe:
    """Trace a model and cut it at the modules of `split_spec`, and where it calls `pipe_split()`.

    Args:
        module: the model.
        mb_args: what it is called with; taken, as shapes are no part of the graph here.
        mb_kwargs: the same.
        split_spec: by a module's path, whether to cut before or after it.
        split_policy: must be None.

    >>> import pullback as torch
    >>> from pullback.distributed.pipelining import SplitPoint, pipeline
    >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    >>> pipe = pipeline(model, (torch.ones(1, 2),), split_spec={"2": SplitPoint.BEGINNING})
    >>> pipe.num_stages, bool(pipe(torch.ones(1, 2)) == model(torch.ones(1, 2)))
    (2, True)
    """
    if split_policy is not None:
        raise NotImplementedError("pipeline: stages are where split_spec says; no split_policy=.")
    spec = split_spec or {}
    unknown = spec.keys() - {name for name, _ in module.named_modules()}
    if unknown:
        raise ValueError(f"pipeline: the model has no module {min(unknown)!r}.")
    tracer = _Tracer(tuple(spec))
    before = _tracing.get()
    try:
        _tracing.set(tracer)
        graph = tracer.trace(module)
    finally:
        _tracing.set(before)
    traced = GraphModule(module, graph)
    numbers = _numbered(traced, spec)
    traced.recompile()
    return Pipe(_chained(split_module(traced, module, lambda node: numbers[node])))


def _numbered(traced: GraphModule, spec: dict[str, SplitPoint]) -> dict[Node, int]:
    """The stage of each node."""
    numbers: dict[Node, int] = {}
    now = 0
    for node in list(traced.graph.nodes):
        if node.op == "call_function" and node.target is pipe_split:
            traced.graph.erase_node(node)
            now += 1
            continue
        point = spec.get(str(node.target)) if node.op == "call_module" else None
        now += point is SplitPoint.BEGINNING
        numbers[node] = now
        now += point is SplitPoint.END
    for node in reversed(traced.graph.nodes):  # what was not computed is where it is first used
        if node.op == "get_attr" and node.users:
            numbers[node] = min(numbers[user] for user in node.users)
    return numbers


def _chained(split: GraphModule) -> list[Module]:
    """The stages of a split graph, of which each takes what the one before returns."""
    calls = [node for node in split.graph.nodes if node.op == "call_module"]
    stages: list[Module] = []
    for number, call in enumerate(calls):
        part = split.get_submodule(str(call.target))
        if number == 0:
            stages.append(part)
            continue
        stages.append(_Stage(part, [_place(one, calls[number - 1]) for one in call.args]))
    (output,) = (node for node in split.graph.nodes if node.op == "output")
    if not calls or output.args[0] is not calls[-1]:
        raise NotImplementedError(
            "pipeline: what the model returns is not of its last stage alone."
        )
    return stages


def _place(value: Any, before: Node) -> int:
    """Which of the values that the stage before returns this is."""
    if value is before:
        return 0
    picks = isinstance(value, Node) and value.target is operator.getitem
    if picks and value.args[0] is before:
        return int(value.args[1])
    raise NotImplementedError(
        f"pipeline: {value} is used by a later stage than the one after it; stages hand on to the "
        "next alone. Cut elsewhere, or let the modules between return it too."
    )


__dir__ = _only_public(globals())
