"""A captured call whose programs come from compilers of the user's, by way of a partitioner."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

from pullback.compiled.aot.naming import compiling, next_call
from pullback.compiled.capture.capture import Captured
from pullback.compiled.capture.steps import Value
from pullback.compiled.graph import compiled_by, example_of, graph_module, tensor_program
from pullback.compiled.runtime import node as nodes
from pullback.compiled.runtime.entry import Entry, owned

__all__ = ["AotEntry", "Compilers", "joint_of"]


@dataclass(frozen=True)
class Compilers:
    """Who cuts a joint graph in two, and who makes functions of the parts."""

    forward: Callable[..., Any]
    backward: Callable[..., Any]
    inference: Callable[..., Any]
    partition: Callable[..., Any]
    decompositions: Any = None
    held_first: bool = False  # parameters and buffers are leading inputs


@dataclass
class Joint:
    """The joint graph of a captured call, and what its inputs and outputs are."""

    module: Any
    sources: list[int]  # numbers of the captured inputs that are primals, in order
    examples: tuple[list[Any], list[Any]]  # primals, tangents
    results: int  # so many outputs are the forward's
    gradients: list[int]  # which of the other outputs are gradients, not None


def joint_of(captured: Captured, compilers: Compilers, *, backward: bool = True) -> Joint:
    """A call as a graph of primals and tangents; without backward, of primals alone."""
    inputs = captured.inputs
    sources = [n for n, one in enumerate(inputs) if one.kind != "constant"]
    if compilers.held_first:
        sources.sort(key=lambda n: inputs[n].kind == "argument")
    constants = [(one.value, one.place) for one in inputs if one.kind == "constant"]
    effects = [value for _, value in captured.writes]
    effects += [value for _, value in captured.stores if value is not None]
    results: list[Value] = [*effects, *(o.value for o in captured.outputs if o.kind == "value")]
    tangents = [value for _, value in captured.tangents] if backward else []
    leaving = dict(captured.gradients) if backward else {}
    gradients = [leaving.get(n) for n in sources] if backward else []
    names = [f"primals_{n}" for n in range(1, len(sources) + 1)]
    names += [f"tangents_{n}" for n in range(1, len(tangents) + 1)]
    primals = [inputs[n].value for n in sources]
    calls = captured.calls if backward else captured.calls[: captured.forward]
    module = graph_module(
        calls, [*primals, *tangents], [*results, *gradients], names=names, constants=constants
    )
    examples = [example_of(one) for one in primals], [example_of(one) for one in tangents]
    if compilers.decompositions:
        module = _decomposed(module, [*examples[0], *examples[1]], names, compilers.decompositions)
    order = {place: n for n, place in enumerate(sources)}
    return Joint(module, sources, examples, len(results),
                 [order[place] for place, _ in captured.gradients])  # fmt: skip


def _decomposed(module: Any, examples: list[Any], names: list[str], table: Any) -> Any:
    """The graph with operators replaced by what a table says that they are."""
    from pullback.fx.experimental.proxy_tensor import make_fx
    from pullback.library.overload import OpOverload

    for node in module.graph.nodes:
        if node.op == "call_function" and not isinstance(node.target, OpOverload):
            raise NotImplementedError(
                f"decompositions: {node.name} is no operator that they could be applied around."
            )
    made = make_fx(lambda *args: module(*args), table)(*examples)
    for node, name in zip(made.graph.find_nodes(op="placeholder"), names, strict=True):
        node._rename(name)
        node.target = name
    made.recompile()
    return made


class AotEntry(Entry):
    """One cached pair of programs of an `aot_function`."""

    def __init__(
        self, captured: Captured, leaves: list[Any], backend: Any, shared: Any = None
    ) -> None:
        super().__init__(captured, leaves, backend, shared)
        self.compilers: Compilers = backend
        self.is_ahead = False  # the partitioner decides what is kept
        self.number = next_call()

    def _make_plain(self) -> Any:
        joint = joint_of(self.captured, self.compilers, backward=False)
        with compiling(self.number, "inference"):
            run = compiled_by(self.compilers.inference, joint.module, joint.examples[0])
        return lambda arrays: self._ordered(tensor_program(run, arrays)), joint.sources, []

    def _make_pair(self) -> Any:
        joint = joint_of(self.captured, self.compilers)
        count = joint.results
        primals, tangents = joint.examples
        forward, backward = self.compilers.partition(
            joint.module, (primals, tangents), num_fwd_outputs=count
        )
        with compiling(self.number, "forward"):
            first = compiled_by(self.compilers.forward, forward, primals)
        saved = [_example(node) for node in backward.graph.find_nodes(op="placeholder")]
        given = saved[: len(saved) - len(tangents)] + tangents
        with compiling(self.number, "backward"):
            second = compiled_by(self.compilers.backward, backward, given)

        order = {place: n for n, place in enumerate(joint.sources)}
        written = [order[place] for place, _ in self.captured.writes]

        def run_first(arrays: list[Any]) -> list[Any]:
            made = tensor_program(first, arrays)
            # What is about to be overwritten is kept as it was.
            kept = [_apart(one, [arrays[n] for n in written]) for one in made[count:]]
            return self._ordered(made[:count]) + kept

        def run_second(arrays: list[Any]) -> list[Any]:
            made = tensor_program(second, arrays)
            return [made[n] for n in joint.gradients]

        return (run_first, joint.sources, []), run_second, []

    def programs(self) -> list[Any]:
        """None that can be shown: they are the compilers' own."""
        return []

    def _ordered(self, made: list[Any]) -> list[Any]:
        """Results, then effects, as entries have them; graphs give effects first."""
        count = len(made) - len(self.results)
        return made[count:] + made[:count]

    def backward(self, node: Any, gradients: list[Any]) -> tuple[Any, ...]:
        """Gradients by edge, as arrays."""
        sizes = node._g_sizes or ((node._g_shape, node._g_dtype),)
        given = nodes.zeros_for(sizes, gradients)
        arrays = [*node.saved, *given]
        return tuple(owned(self._program("pair")[1](arrays), arrays))


def _apart(saved: Any, written: list[Any]) -> Any:
    shared = any(numpy.may_share_memory(saved, one) for one in written)
    return saved.copy() if shared else saved


def _example(node: Any) -> Any:
    value = node.meta.get("val")
    return example_of(value) if isinstance(value, Value) else value
