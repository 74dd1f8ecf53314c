"""Captured calls as an `fx.GraphModule`, for back ends of the user's: `backend=fn(gm, inputs)`.

The module takes and gives tensors; its nodes call operators, so it can be printed, changed and run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from pullback.compiled.capture.steps import Call, Value, live
from pullback.compiled.runtime.replay import again
from pullback.core.mode import NO_GRAD, current, settle
from pullback.core.tensor import Tensor, wrap

__all__ = ["GraphProgram", "graph_module"]

_LITERALS = (int, float, str, bool, type(None))


def graph_module(calls: list[Call], inputs: Sequence[Value], outputs: Sequence[Value]) -> Any:
    """A module of the calls that `outputs` need."""
    from pullback.fx.graph import Graph
    from pullback.fx.graph_module import GraphModule

    graph = Graph()
    nodes = {
        one.number: graph.placeholder(f"primals_{place}")
        for place, one in enumerate(inputs, start=1)
    }
    for one, node in zip(inputs, nodes.values(), strict=True):
        node.meta["val"] = one
    for call in live(calls, outputs):
        read = list({one.number: one for one in call.inputs}.values())
        target = _step(call, [one.number for one in read])
        made = graph.call_function(target, tuple(nodes[one.number] for one in read))
        made.meta["stack_trace"] = str(call.origin or "")
        for place, one in enumerate(call.results):
            nodes[one.number] = made if call.single else graph.call_function(_item, (made, place))
            nodes[one.number].meta["val"] = one
    graph.output(tuple(nodes[one.number] for one in outputs))
    return GraphModule({}, graph)


def _item(several: Any, place: int) -> Any:
    return several[place]


def _step(call: Call, numbers: list[int]) -> Any:
    """A function of a call's tensors, by the operator's name."""
    plain = call.op is not None and all(
        one.__class__ is Value or one.__class__ in _LITERALS for one in call.kwargs.values()
    )

    def step(*tensors: Tensor) -> Any:
        made = again(call, dict(zip(numbers, tensors, strict=True)))
        return made[0] if call.single else tuple(made)

    step.__name__ = step.__qualname__ = call.name.strip("_").replace(".", "_") or "step"
    step.__doc__ = f"{call.name}, with its options" if plain else call.name
    return step


class GraphProgram:
    """A program by a back end of the user's."""

    backend = "user"

    def __init__(
        self, compiler: Any, calls: list[Call], inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> None:
        self.module = graph_module(calls, inputs, outputs)
        self.calls = live(calls, outputs)
        examples = [wrap(numpy.zeros(one.shape, one.dtype)) for one in inputs]
        self.run = compiler(self.module, examples)
        if not callable(self.run):
            raise RuntimeError(
                f"The back end {compiler!r} returned {type(self.run).__name__}; it has to return "
                "a function of the graph's inputs."
            )

    @property
    def source(self) -> str:
        """The module's code."""
        return str(self.module.code)

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The program's outputs."""
        before = settle()
        current.set(NO_GRAD)
        try:
            made = self.run(*[wrap(array) for array in arrays])
        finally:
            current.set(before)
        listed = made if isinstance(made, tuple | list) else (made,)
        return [one._array for one in listed]
