"""A model made into stages: traced once, and cut where the model or its caller says.

Stages talk to the next one alone: what a later one uses of an earlier one, or of the inputs, is
handed on by those between.
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
    """A part of a graph, called with all that the part before returns, in its order.

    `handed` says what it returns where that is not just what the part makes: places among the
    results, or among what it was given itself and only hands on.
    """

    def __init__(
        self, part: Module, places: Sequence[int], handed: Sequence[tuple[bool, int]] | None
    ) -> None:
        super().__init__()
        self.part, self._places = part, tuple(places)
        self._handed = None if handed is None else tuple(handed)
        self._carried = tuple(place for own, place in handed or () if not own)

    def forward(self, *given: Any, **named: Any) -> Any:
        """Call the part."""
        if (needed := max((*self._places, *self._carried), default=-1)) >= len(given):
            raise TypeError(
                f"A stage is called with {len(given)} values and needs {needed + 1}: inputs that a "
                "later stage uses are given by position."
            )
        made = self.part(*[given[place] for place in self._places], **named)
        if self._handed is None:
            return made
        results = made if isinstance(made, tuple) else (made,)
        return tuple(results[place] if own else given[place] for own, place in self._handed)


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
    inputs = [node for node in split.graph.nodes if node.op == "placeholder"]
    (output,) = (node for node in split.graph.nodes if node.op == "output")
    if not calls or output.args[0] is not calls[-1]:
        raise NotImplementedError(
            "pipeline: what the model returns is not of its last stage alone."
        )
    used = [[_source(one, calls, inputs) for one in call.args] for call in calls]
    stages: list[Module] = []
    coming = {(-1, place): place for place in range(len(inputs))}
    for number, call in enumerate(calls):
        part = split.get_submodule(str(call.target))
        places = [coming[source] for source in used[number]]
        later = [source for after in used[number + 1 :] for source in after]
        going = [source for source in dict.fromkeys(later) if source[0] <= number]
        if all(maker == number for maker, _ in going):
            handed = None
            made = {source: source[1] for source in going}
        else:
            handed = [
                (source[0] == number, source[1] if source[0] == number else coming[source])
                for source in going
            ]
            made = {source: place for place, source in enumerate(going)}
        first_as_it_is = number == 0 and handed is None and places == list(range(len(inputs)))
        stages.append(part if first_as_it_is else _Stage(part, places, handed))
        coming = made
    return stages


def _source(value: Any, calls: list[Node], inputs: list[Node]) -> tuple[int, int]:
    """Which stage makes a value, -1 for the model's inputs, and which of its results it is."""
    if value in inputs:
        return -1, inputs.index(value)
    if value in calls:
        return calls.index(value), 0
    picks = isinstance(value, Node) and value.target is operator.getitem
    if picks and value.args[0] in calls:
        return calls.index(value.args[0]), int(value.args[1])
    raise NotImplementedError(f"pipeline: {value} goes into a stage, and no stage makes it.")


__dir__ = _only_public(globals())
