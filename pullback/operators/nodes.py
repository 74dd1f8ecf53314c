"""Writes the node class of an operator.

The class that one would write by hand, with slots for exactly what its rules ask for. Here because
both the built and the interpreted forward make the same nodes.
"""

from __future__ import annotations

import linecache
from typing import Any

import numpy

from pullback.core import saved
from pullback.core.arrays import Array
from pullback.core.forward import LEVELS
from pullback.core.node import OperatorNode, Output
from pullback.core.origin import GENERATED
from pullback.core.tensor import Tensor, new, wrap
from pullback.operators.declare import Op, Param, parameters_of
from pullback.operators.declared_node import DeclaredNode
from pullback.operators.specialise import on_arrays

_classes: dict[Op, type[OperatorNode]] = {}


class Plan:
    """What the nodes of an operator keep, derived from the parameter names of its rules."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.edges = op.differentiable
        asked = {param.name: parameters_of(op.rules[param.name]) for param in self.edges}
        self.asked = asked
        by_name = {param.name: param for param in op.params}
        # An adjoint may call its own input `g` too; in a rule the name always means the gradient.
        gradients = {*op.gradient_names, "g"}
        asked_for = [name for names in asked.values() for name in names if name not in gradients]
        wanted = list(dict.fromkeys(asked_for))
        self.inputs = [by_name[n] for n in wanted if n in by_name and by_name[n].is_tensor]
        self.options = [n for n in wanted if n in by_name and not by_name[n].is_tensor]
        self.outputs = [n for n in wanted if n in op.outputs]
        taken = {*by_name, *op.outputs}
        self.derived = [n for n in wanted if n not in taken]  # input_shape, input_dtype

    def users(self, name: str) -> list[int]:
        """Numbers of the edges whose rule asks for `name`."""
        return [i for i, param in enumerate(self.edges) if name in self.asked[param.name]]

    @property
    def slots(self) -> list[str]:
        """Names of the slots."""
        slots = [f"s_{param.name}{end}" for param in self.inputs for end in ("", "_v")]
        slots += [f"s_{name}{end}" for name in self.outputs for end in ("", "_v", "_c")]
        return slots + [f"s_{name}" for name in (*self.options, *self.derived)]


def several_outputs(op: Op) -> bool:
    """Whether more than one output carries a gradient."""
    return op.outputs == ("*",) or len(op.outputs) - len(op.fixed_outputs) > 1


def node_class(op: Op) -> type[OperatorNode]:
    """The operator's node class, written when first needed."""
    known = _classes.get(op)
    if known is not None:
        return known
    plan = Plan(op)
    source = "\n".join(
        [
            *_running(plan, "_run", tensors=False),
            *_running(plan, "_run_tensors", tensors=True),
            *_release(plan),
        ]
    )
    scope: dict[str, Any] = {
        "input_array": saved.input_array,
        "input_tensor": saved.input_tensor,
        "output_array": saved.output_array,
        "output_tensor": output_tensor,
        "fill": fill_missing,
    }
    for i, param in enumerate(plan.edges):
        rule = op.rules[param.name]
        scope[f"rule_{i}"], scope[f"array_rule_{i}"] = rule, on_arrays(rule)
    execute(source, scope, f"{GENERATED}{op.node_name}>")
    members: dict[str, Any] = {
        name: scope[name] for name in ("_run", "_run_tensors", "_release") if name in scope
    }
    members["_output_tensor"] = lambda node, name: output_tensor(node, name, op.outputs.index(name))
    members |= {"__slots__": plan.slots, "op": op, "plan": plan, "__module__": "pullback.autograd"}
    base = SeveralOutputs if several_outputs(op) else DeclaredNode
    made = type(op.node_name, (base,), members)
    _classes[op] = made
    return made


def execute(source: str, scope: dict[str, Any], filename: str) -> None:
    """Run generated source; tracebacks will show its lines."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(source, filename, "exec"), scope)


def _running(plan: Plan, name: str, *, tensors: bool) -> list[str]:
    op = plan.op
    lines = [f"def {name}(self, g, edges):"]
    edges = [f"e{i}" for i in range(len(plan.edges))]
    sequence = len(plan.edges) == 1 and plan.edges[0].kind == "tensors"
    if not sequence:
        lines.append(f"    {''.join(edge + ', ' for edge in edges)} = edges")
    if several_outputs(op):
        lines.append(f"    g = fill(self, g, {tensors})")
        if op.outputs != ("*",):
            names = [f"g_{n}" if n not in op.fixed_outputs else "_" for n in op.outputs]
            lines.append(f"    {', '.join(names)} = g")
    elif len(op.outputs) > 1:
        lines.append(f"    {op.gradient_names[0]} = g")
    for param in plan.inputs:
        lines += _read_input(plan, param, tensors=tensors, guarded=not sequence)
    for output in plan.outputs:
        lines += _read_output(plan, output, tensors=tensors, guarded=not sequence)
    lines += [f"    {name} = self.s_{name}" for name in (*plan.options, *plan.derived)]
    rule = "rule" if tensors else "array_rule"
    calls = [f"{rule}_{i}({', '.join(plan.asked[p.name])})" for i, p in enumerate(plan.edges)]
    if sequence:
        return [*lines, f"    return {calls[0]}"]
    if len(calls) == 1:
        return [*lines, f"    return ({calls[0]},)"]
    results = [f"{call} if e{i} is not None else None" for i, call in enumerate(calls)]
    return [*lines, f"    return ({', '.join(results)})"]


def _guard(plan: Plan, name: str, *, guarded: bool) -> list[str]:
    users = plan.users(name)
    if not guarded or len(users) == len(plan.edges):
        return []
    return [f"    if {' or '.join(f'e{i} is not None' for i in users)}:"]


def _read_input(plan: Plan, param: Param, *, tensors: bool, guarded: bool) -> list[str]:
    name = param.name
    if param.kind == "tensors":
        read = [f"{name} = input_{'tensor' if tensors else 'array'}(self, '{name}')"]
    elif tensors:
        read = [
            f"{name} = self.s_{name}",
            f"version = self.s_{name}_v",
            f"if version is not None and {name}._cell[0] != version:",
            f"    {name} = input_tensor(self, '{name}')",
        ]
    else:
        read = [
            f"{name} = self.s_{name}",
            f"version = self.s_{name}_v",
            "if version is not None:",
            f"    {name} = {name}._array if {name}._cell[0] == version "
            f"else input_array(self, '{name}')",
        ]
    return _indented(read, _guard(plan, name, guarded=guarded))


def _read_output(plan: Plan, name: str, *, tensors: bool, guarded: bool) -> list[str]:
    if tensors:
        read = [f"{name} = output_tensor(self, '{name}', {plan.op.outputs.index(name)})"]
    else:
        read = [
            f"{name} = self.s_{name}",
            f"if self.s_{name}_c[0] != self.s_{name}_v:",
            f"    {name} = output_array(self, '{name}')",
        ]
    return _indented(read, _guard(plan, name, guarded=guarded))


def _indented(lines: list[str], guard: list[str]) -> list[str]:
    indent = "        " if guard else "    "
    return [*guard, *(indent + line for line in lines)]


def _release(plan: Plan) -> list[str]:
    forget = []
    for param in plan.inputs:
        forget += [f"    self.s_{param.name} = freed", f"    self.s_{param.name}_v = 0"]
    for name in plan.outputs:
        forget += [f"    self.s_{name} = freed", f"    self.s_{name}_c = freed._cell"]
    return ["def _release(self, freed):", *forget] if forget else []


def output_tensor(node: Any, name: str, number: int) -> Any:
    """A saved output as a tensor again, in its place in the graph."""
    value = getattr(node, "s_" + name)
    if type(value) is saved.Packed:
        return value.unpack(node)
    array = saved.output_array(node, name)
    tensor = new(Tensor)
    tensor._array = array
    tensor._cell = getattr(node, "s_" + name + "_c")
    fixed = name in node.op.fixed_outputs
    tensor._node = None if fixed else node._output(number) if several_outputs(node.op) else node
    for level in LEVELS:
        level.put(tensor, level.saved.get(node, {}).get(name))
    return tensor


def fill_missing(node: Any, gradients: Any, tensors: bool) -> Any:
    """Gradients of several outputs, zeros where none arrived."""
    fixed = [name in node.op.fixed_outputs for name in node.op.outputs]
    return [
        node._zeros(i, tensors=tensors) if g is None and not (len(fixed) > i and fixed[i]) else g
        for i, g in enumerate(gradients)
    ]


class SeveralOutputs(DeclaredNode):
    """A node that receives the gradients of several tensors."""

    __slots__ = ("_g_sizes",)

    _g_sizes: tuple[tuple[tuple[int, ...], Any], ...]  # shape and dtype of each output

    def _output(self, number: int) -> Output:
        """Where the gradient of one output goes."""
        return Output(self, number, *self._g_sizes[number])

    def _zeros(self, number: int, *, tensors: bool) -> Array:
        """What a missing gradient counts as."""
        zeros = numpy.zeros(*self._g_sizes[number])
        return wrap(zeros) if tensors else zeros
