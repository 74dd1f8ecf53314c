"""Backward passes for compilers of the user's: each captured one is a graph with five inputs."""

from __future__ import annotations

import operator
from typing import Any

import numpy

from pullback.compiled.backward.takeover import compiled_autograd
from pullback.compiled.capture.steps import live
from pullback.compiled.graph import enter_calls, tensor_program
from pullback.core import passes

__all__ = ["Disabled", "Enabled", "pass_module"]

INPUTS = ("inputs", "sizes", "scalars", "hooks", "packed_data")


def pass_module(calls: Any, inputs: Any, outputs: Any) -> Any:
    """A captured pass as a module of lists: tensors, sizes, numbers, hooks, packed values.

    The last four are empty: sizes and numbers are constants of the program, and passes with hooks
    run on the engine.
    """
    from pullback.fx.graph import Graph
    from pullback.fx.graph_module import GraphModule

    graph = Graph()
    given = [graph.placeholder(name) for name in INPUTS]
    nodes: dict[int, Any] = {}
    for place, one in enumerate(inputs):
        nodes[one.number] = graph.call_function(operator.getitem, (given[0], place))
        nodes[one.number].meta["val"] = one
    enter_calls(graph, live(calls, outputs), nodes)
    graph.output([nodes[one.number] for one in outputs])
    return GraphModule({}, graph, "CompiledAutograd")


class _PassProgram:
    """A pass by a compiler of the user's."""

    backend = "user"

    def __init__(self, compiler: Any, calls: Any, inputs: Any, outputs: Any) -> None:
        self.module = pass_module(calls, inputs, outputs)
        self.calls = live(calls, outputs)
        try:
            run = compiler(self.module)
        except Exception as error:
            error.add_note(f"while it compiled this backward pass:\n{self.module.code}")
            raise
        if not callable(run):
            raise RuntimeError(
                f"compiler_fn returned {type(run).__name__}; it has to return a function."
            )
        self.run = run
        self.wanted = [(one.shape, one.dtype) for one in outputs]

    @property
    def source(self) -> str:
        """The module's code."""
        return str(self.module.code)

    def __call__(self, arrays: list[Any]) -> list[Any]:
        """The gradients, refused before anybody gets one if they are not those of the graph."""
        made = tensor_program(lambda *tensors: self.run(list(tensors), [], [], [], []), arrays)
        found = [(numpy.shape(one), getattr(one, "dtype", type(one))) for one in made]
        if found != self.wanted:
            raise RuntimeError(
                "The function that compiler_fn returned gave results of shapes and dtypes "
                f"{found}; the graph that it was given has {self.wanted}."
            )
        return made


class _ByUser:
    """A back end; the same compiler in another block finds the programs that it made."""

    def __init__(self, compiler: Any) -> None:
        self.compiler = compiler

    def __call__(self, calls: Any, inputs: Any, outputs: Any, *more: Any) -> _PassProgram:
        """A program of captured calls."""
        return _PassProgram(self.compiler, calls, inputs, outputs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByUser) and other.compiler is self.compiler

    def __hash__(self) -> int:
        return id(self.compiler)


class Enabled(compiled_autograd):
    """The block of `_enable(compiler_fn)`."""

    def __init__(self, compiler_fn: Any, dynamic: bool | None = True,
                 ignore_active_disable_ctx: bool = True) -> None:  # fmt: skip
        super().__init__("python", dynamic, "warn")
        self.backend, self.is_users = _ByUser(compiler_fn), True
        self.is_off = not ignore_active_disable_ctx and _switched_off()

    def __enter__(self) -> compiled_autograd:
        if self.is_off:
            self._before.append(passes.taken_over.set(passes.taken_over.get()))
            return self
        return super().__enter__()


def _switched_off() -> bool:
    return isinstance(passes.taken_over.get(), Disabled)


class Disabled:
    """The block of `_disable()`: the engine runs passes."""

    def __init__(self) -> None:
        self._before: list[Any] = []

    def __enter__(self) -> Disabled:
        self._before.append(passes.taken_over.set(self))
        return self

    def __exit__(self, *error: object) -> None:
        passes.taken_over.reset(self._before.pop())

    def run(self, roots: Any, wanted: Any, **options: Any) -> None:
        """Leave every pass to the engine."""
