"""`run_decompositions`: the program once more, in operators below autograd and without writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pullback
from pullback.core.trees import pytree
from pullback.func.inspection import functionalize
from pullback.fx.graph import Graph
from pullback.fx.interpreter import Interpreter
from pullback.fx.node import Node

from ._composites import batch_norm_by_parts
from ._trace import argument_of, rename, traced
from .exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from .graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)

__all__ = ["decomposed", "without_writes"]

_WRITTEN = {
    InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
    InputKind.PARAMETER: OutputKind.PARAMETER_MUTATION,
}


def decomposed(program: ExportedProgram, table: Mapping[Any, Any]) -> ExportedProgram:
    """A program whose operators are taken apart as a table says."""
    specs = program.graph_signature.input_specs
    leaves = iter(_examples(program))
    held: list[Any] = []
    for spec in specs:
        if spec.kind is InputKind.USER_INPUT:
            held.append(next(leaves))
        else:
            known = program.state_dict if spec.target in program.state_dict else program.constants
            held.append(known[str(spec.target)])
    count = sum(spec.kind is not InputKind.USER_INPUT for spec in specs)
    run = _Defined(program.graph_module, table)
    root, graph = traced(
        functionalize(run.run), held, program._sizes, count, keeps_whole=False, functional=True,
        table=table,
    )  # fmt: skip
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    names = [str(node.target) for node in program.graph.nodes if node.op == "placeholder"]
    for node, name in zip(inputs, names, strict=True):
        rename(node, name)
    made = [
        InputSpec(spec.kind, _renamed(spec.arg, node.name), spec.target, spec.persistent)
        for spec, node in zip(specs, inputs, strict=True)
    ]
    constants = dict(program.constants)
    made[count:count] = _lifted(root, graph, inputs, count, constants)
    outputs = without_writes(graph, made)
    signature = ExportGraphSignature(made, outputs)
    call = program.module_call_graph[0].signature
    assert call is not None  # export writes it
    nested = ModuleCallSignature(
        [spec.arg for spec in made if spec.kind is InputKind.USER_INPUT],
        [spec.arg for spec in outputs if spec.kind is OutputKind.USER_OUTPUT],
        call.in_spec, call.out_spec,
    )  # fmt: skip
    return ExportedProgram(
        graph, signature, program.state_dict, constants, program._sizes,
        [ModuleCallEntry("", nested)], program.example_inputs, program.call_spec,
        program._call_names, "ATEN",
    )  # fmt: skip


class _Defined(Interpreter):
    """Runs a graph, with the functions that define operators in place of those."""

    def __init__(self, module: Any, table: Mapping[Any, Any]) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.table = {pullback.ops.aten.batch_norm.default: _batch_norm, **table}

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """Call a function, or what defines it."""
        known = self.table.get(target)
        made = NotImplemented if known is None else known(*args, **kwargs)
        return super().call_function(target, args, kwargs) if made is NotImplemented else made


def _batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float,
    eps: float, cudnn_enabled: bool,
) -> Any:  # fmt: skip
    return batch_norm_by_parts(x, mean, var, weight, bias, training, momentum, eps)


def _examples(program: ExportedProgram) -> list[Any]:
    """The leaves of the example arguments; zeros where a file brought none."""
    if program.example_inputs is not None:
        return list(pytree.tree_flatten(program.example_inputs)[0])
    found: list[Any] = []
    inputs = [node for node in program.graph.nodes if node.op == "placeholder"]
    for node, spec in zip(inputs, program.graph_signature.input_specs, strict=True):
        if spec.kind is not InputKind.USER_INPUT:
            continue
        if isinstance(spec.arg, ConstantArgument):
            found.append(spec.arg.value)
        else:
            value = node.meta["val"]
            found.append(pullback.zeros(tuple(value.shape), dtype=value.dtype))
    return found


def _renamed(arg: Any, name: str) -> Any:
    return type(arg)(name, arg.value) if isinstance(arg, ConstantArgument) else type(arg)(name)


def _lifted(
    root: Any, graph: Graph, inputs: list[Node], count: int, constants: dict[str, Any]
) -> list[InputSpec]:
    """Constants that definitions of operators brought along, as inputs."""
    found: list[InputSpec] = []
    for node in [one for one in graph.nodes if one.op == "get_attr"]:
        name = f"lifted_tensor_{len(constants)}"
        while name in constants:
            name += "_"
        constants[name] = getattr(root, str(node.target))
        before = inputs[count] if count < len(inputs) else next(iter(graph.nodes))
        with graph.inserting_before(before):
            place = graph.create_node("placeholder", "c", name="c")
        rename(place, f"c_{name}")
        place.meta.update(node.meta)
        node.replace_all_uses_with(place)
        graph.erase_node(node)
        found.append(InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(place.name), name))
    return found


def without_writes(graph: Graph, specs: list[InputSpec]) -> list[OutputSpec]:
    """What is written to inputs at the end becomes outputs, before the caller's."""
    copy_ = pullback.ops.aten.copy_.default
    known = {spec.arg.name: spec for spec in specs}
    written: dict[Node, Any] = {}
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is copy_ and node.args[0].op == "placeholder":
            target, value = node.args[0], node.args[1]
            node.replace_all_uses_with(value)
            written[target] = value
            graph.erase_node(node)
    output = graph.output_node()
    for node in graph.nodes:
        mutable = getattr(getattr(node.target, "_schema", None), "is_mutable", False)
        drawn = any(isinstance(one, Node) and one.op == "placeholder" for one in node.args[:1])
        if node.op == "call_function" and mutable and drawn:
            raise NotImplementedError(
                f"run_decompositions: {node.target} writes to {node.args[0]}, and nothing replaces "
                "that write."
            )
    returned = list(output.args[0])
    output.args = ((*written.values(), *returned),)
    found = []
    for target, value in written.items():
        spec = known[target.name]
        kind = _WRITTEN.get(spec.kind, OutputKind.BUFFER_MUTATION)
        name = spec.target if spec.kind is not InputKind.USER_INPUT else spec.arg.name
        found.append(OutputSpec(kind, argument_of(value), name))
    return found + [OutputSpec(OutputKind.USER_OUTPUT, argument_of(one), None) for one in returned]
