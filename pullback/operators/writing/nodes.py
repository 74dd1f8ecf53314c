"""Writes the node class of an operator, with slots for exactly what its rules ask for.

The class that one would write by hand. Here because both the built and the interpreted forward make
the same nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat, starmap
from typing import Any

import numpy

from pullback.core import arrays, saved
from pullback.core.forward import LEVELS
from pullback.core.node import OperatorNode
from pullback.core.tensor import new
from pullback.core.writer import block, define, filled, theirs
from pullback.operators.arrays.threads import setting
from pullback.operators.declare import Op, Param
from pullback.operators.plan import plan_of, several_outputs
from pullback.operators.running.declared_node import DeclaredNode, saved_names
from pullback.operators.running.followed import followed, inputs_followed
from pullback.operators.running.on_arrays import on_arrays
from pullback.operators.running.outputs import SeveralOutputs, fill_missing, output_tensor
from pullback.operators.writing.inline import SIGNS, Inlined, inlined
from pullback.operators.writing.names import COMMON

_classes: dict[Op, type[OperatorNode]] = {}


def node_class(op: Op, kind: type = numpy.ndarray) -> type[OperatorNode]:
    """The operator's node class for arrays of a kind, written when first needed."""
    if arrays.LIBRARIES and kind in arrays.LIBRARIES:
        return arrays.LIBRARIES[kind].node_class(op)
    known = _classes.get(op)
    if known is None:
        known = _classes[op] = written_class(op, {}, on_arrays)
    return known


def blank_nodes(made: type[OperatorNode]) -> Iterator[OperatorNode]:
    """Nodes without end that hold nothing yet: as with tensors, a fifth less than `new(made)`."""
    return starmap(new, repeat((made,)))


def rewrite_nodes() -> None:
    """Write what runs nodes on arrays anew: it asks for large ones from now on."""
    for op, made in _classes.items():
        made._run = NodeWriter(op, {}, on_arrays).method("_run")  # type: ignore[method-assign]  # of classes that are written


def written_class(
    op: Op,
    names: dict[str, Any],
    specialise: Callable[[Any], Any],
    fuse: Callable[[Inlined, str], Inlined | None] | None = None,
) -> type[OperatorNode]:
    """A node class: `names` mean something else in its code, `specialise` brings rules to arrays.

    `fuse` may make one call of the lines of a rule.
    """
    writer = NodeWriter(op, names, specialise, fuse)
    members = {"_run": writer.method("_run"), "_run_tensors": writer.method("_run_tensors")}
    if places := inputs_followed(op.node_name):
        members["_run_tensors"] = followed(members["_run_tensors"], places)
    plan = writer.plan
    if plan.inputs or plan.outputs:
        members["_release"] = writer.method("_release")
    members["_output_tensor"] = lambda node, name: output_tensor(node, name, op.outputs.index(name))
    members |= saved_names(plan)
    members |= {"__slots__": plan.slots, "op": op, "plan": plan, "__module__": "pullback.autograd"}
    if op.shows is not None:
        members["_shows"] = op.shows
    base = SeveralOutputs if several_outputs(op) else DeclaredNode
    return type(op.node_name, (base,), members)


def rules_apart(
    op: Op, names: dict[str, Any], specialise: Callable[[Any], Any], *, tensors: bool = False
) -> Callable[..., tuple[Any, ...]]:
    """What an operator's nodes run on arrays, as a function of edges, gradient and kept values.

    Or on `tensors`.
    """
    made: Callable[..., tuple[Any, ...]] = NodeWriter(op, names, specialise).method(
        "_tensor_rules" if tensors else "_rules"
    )
    return made


# An array takes twice as long with a Python number as with an array of no dimensions; a NumPy
# scalar, as gradients of 0-d tensors are, is quickest with the number.
_NUMBERS = """
numbers = NO_NUMBERS
if type(g) is ndarray:
    if g.dtype is F64:
        numbers = numbers64
    elif g.dtype is F32:
        numbers = numbers32
"""
# The same for an input that is a number. Beside half precision it is not rounded itself, where the
# operator's forward does not either.
_NUMBER = """
if g.dtype is F64:
    {x} = numbers64.get({x}, {x})
elif g.dtype is F32:
    {x} = numbers32.get({x}, {x})
{half}
"""
_HALF = """
elif g.dtype is F16 and {x} is not None:
    {x} = float32({x})
"""
_INPUT_TENSOR = """
{x} = self.s_{name}
version = self.s_{name}_v
if version is not None and {x}._cell[0] != version:
    {x} = input_tensor(self, '{name}')
"""
_INPUT_ARRAY = """
{x} = self.s_{name}
version = self.s_{name}_v
if version is not None:
    {x} = {x}._array if {x}._cell[0] == version else input_array(self, '{name}')
"""
_OUTPUT_ARRAY = """
{x} = self.s_{name}
if self.s_{name}_c[0] != self.s_{name}_v:
    {x} = output_array(self, '{name}')
"""
# The plain case of `output_tensor`: not packed by hooks, not written to, no forward mode.
_OUTPUT_TENSOR = """
array = self.s_{name}
if (type(array) is ndarray and not LEVELS and not get_mode().dispatch and
        self.s_{name}_c[0] == self.s_{name}_v):
    {x} = new(Tensor)
    {x}._array = array
    {x}._cell = self.s_{name}_c
    {x}._node = {owner}
else:
    {x} = output_tensor(self, '{name}', {number})
"""


class NodeWriter:
    """The methods of one class, and the same as functions."""

    def __init__(
        self,
        op: Op,
        names: dict[str, Any],
        specialise: Callable[[Any], Any],
        fuse: Callable[[Inlined, str], Inlined | None] | None = None,
    ) -> None:
        self.op, self.plan, self.names, self.specialise = op, plan_of(op), names, specialise
        self.edges = range(len(self.plan.edges))
        self.sequence = [param.kind for param in self.plan.edges] == ["tensors"]
        self.rules = [inlined(op, param, f"t{i}_") for i, param in enumerate(self.plan.edges)]
        if fuse is not None:
            self.rules = [one and (fuse(one, f"t{i}_") or one) for i, one in enumerate(self.rules)]

    def method(self, name: str) -> Any:
        """A method, or a function that is given what the node keeps: `_rules`."""
        tensors = "tensor" in name
        lines = self.release() if name == "_release" else self.lines(name)
        # Some operators share a node's name: their lines must not.
        where = f"{self.op.name}: {self.op.node_name}.{name}{', elsewhere' if self.names else ''}"
        return define(lines, self._scope(tensors=tensors), where)

    def _scope(self, *, tensors: bool) -> dict[str, Any]:
        specialise: Any = (lambda rule: rule) if tensors else self.specialise
        scope: dict[str, Any] = {
            **COMMON,
            **{f"{n}_array": getattr(saved, f"{n}_array") for n in ("input", "output")},
            "input_tensor": saved.input_tensor,
            "output_tensor": output_tensor,
            "fill_missing": fill_missing,
            "LEVELS": LEVELS,
            "NO_NUMBERS": {},
            **{ufunc.__name__: ufunc for ufunc in SIGNS.values()},
        }
        for i, param in enumerate(self.plan.edges):
            scope[f"rule_{i}"] = specialise(self.op.rules[param.name])
        if self.op.fused_backward is not None:
            scope["fused_backward"] = self.specialise(self.op.fused_backward)
        for one in self.rules:
            if one is not None:
                known = one.tensor_scope if tensors else one.array_scope
                # Kernels on NumPy, unless brought elsewhere.
                own = tensors or self.specialise is on_arrays
                scope |= known if own else {n: specialise(value) for n, value in known.items()}
        return scope | self.names

    def lines(self, name: str) -> list[str]:
        """The lines of what runs the rules."""
        op, plan = self.op, self.plan
        tensors, apart = "tensor" in name, name.endswith("rules")
        lines = [] if self.sequence else [f"{''.join(f'e{i}, ' for i in self.edges)} = edges"]
        lines += self._gradients(tensors=tensors, apart=apart)
        for param in plan.inputs:
            lines += self._input(param, tensors=tensors, apart=apart)
        if not apart:
            for output in plan.outputs:
                lines += self._output(output, tensors=tensors)
            lines += [f"{theirs(one)} = self.s_{one}" for one in (*plan.options, *plan.derived)]
        calls = [f"rule_{i}({plan.given(op.rules[p.name])})" for i, p in enumerate(plan.edges)]
        kept = "".join(f", {theirs(one)}=None" for one in plan.kept)
        head = f"def {name}(edges, g, /{kept})" if apart else f"def {name}(self, g, edges)"
        if self.sequence:
            return block(head, [*lines, f"return {calls[0]}"])
        if op.fused_backward is not None and not tensors:
            others = " or ".join(f"e{i} is not None" for i in self.edges[1:])
            joint = f"return fused_backward({plan.given(op.fused_backward, 'edges')})"
            lines += block(f"if e0 is not None and ({others})", [joint])
        lines += self._written_out(calls, tensors=tensors)
        return block(head, [*lines, f"return {_results(calls)}"])

    def _gradients(self, *, tensors: bool, apart: bool) -> list[str]:
        """Give the gradients of several outputs the names that rules have for them."""
        op, filled_in = self.op, []
        if several_outputs(op) and not apart:
            filled_in = [f"g = fill_missing(self, g, {tensors})"]
        if op.outputs == ("*",):
            return filled_in
        if several_outputs(op):
            names = [f"g_{n}" if n not in op.fixed_outputs else "_" for n in op.outputs]
            return [*filled_in, f"{', '.join(names)} = g"]
        return [f"{op.gradient_names[0]} = g"] if len(op.outputs) > 1 else []

    def _written_out(self, calls: list[str], *, tensors: bool) -> list[str]:
        """The rules that are written out; their calls become empty. Large arrays may be split."""
        rules = {i: one for i, one in enumerate(self.rules) if one is not None}
        if not rules:
            return []
        # Where the written lines do not hold, the rules are called after all.
        unusual = [
            f"{theirs(name)} is not {value}"
            for one in rules.values()
            for name, value in one.usual.items()
        ]
        if any(one.only_real for one in rules.values()):
            # Whoever is one of two objects need not be asked for its kind: a third of the time.
            found = f"(dtype := {'g._array' if tensors else 'g'}.dtype)"
            unusual.append(f"({found} is not F64 and dtype is not F32 and dtype.kind in 'cW')")
        called = [f"return {_results(calls)}"]
        lines = block(f"if {' or '.join(unusual)}", called) if unusual else []
        if not tensors and any(one.has_numbers for one in rules.values()):
            lines += filled(_NUMBERS)
        for i in rules:
            calls[i] = ""

        def noted(which: str) -> list[str]:
            made: list[str] = []
            for i, one in rules.items():
                own = [*getattr(one, which), f"r{i} = {one.result}"]
                wanted = [f"r{i} = None", *block(f"if e{i} is not None", own)]
                made += own if len(calls) == 1 else wanted
            return made

        split = setting.splits and not tensors and not self.names
        if split and any(one.large_lines != one.array_lines for one in rules.values()):
            shared = [*noted("large_lines"), f"return {_results(calls)}"]
            lines += block("if g.size >= LARGE", shared)
        return lines + noted("tensor_lines" if tensors else "array_lines")

    def _wanted(self, name: str, read: list[str]) -> list[str]:
        """Lines that read what some rules ask for, if one of those is wanted."""
        users = self.plan.users(name)
        if self.sequence or len(users) == len(self.edges):
            return read
        return block(f"if {' or '.join(f'e{i} is not None' for i in users)}", read)

    def _input(self, param: Param, *, tensors: bool, apart: bool) -> list[str]:
        name, x, op = param.name, param.local, self.op
        half = filled(_HALF, x=x) if op.wide_numbers else []
        # Whether a Python number can stand for one of the inputs, another one being a tensor.
        may_be_number = op.kind == "elementwise" and op.numbers and len(op.inputs) > 1
        number = filled(_NUMBER, x=x, half=half) if may_be_number else []
        lines: list[str] = []
        if apart:
            met = f"type({x}) is not ndarray and type(g) is ndarray"
            lines = block(f"if {met}", number) if number else []
        elif param.kind == "tensors":
            lines = [f"{x} = input_{'tensor' if tensors else 'array'}(self, '{name}')"]
        else:
            lines = filled(_INPUT_TENSOR if tensors else _INPUT_ARRAY, x=x, name=name)
            lines += block("elif type(g) is ndarray", number) if number and not tensors else []
        lines = lines if apart else self._wanted(name, lines)
        if self.names and not tensors and param.kind != "tensors":
            # A number of the host, as a tensor, beside arrays that are elsewhere.
            read = block(f"if type({x}) is HOST and not {x}.ndim", [f"{x} = {x}[()]"])
            lines += self._wanted(name, read)
        return lines

    def _output(self, name: str, *, tensors: bool) -> list[str]:
        number, several = self.op.outputs.index(name), several_outputs(self.op)
        owner = f"self._output({number})" if several else "self"
        owner = "None" if name in self.op.fixed_outputs else owner
        template = _OUTPUT_TENSOR if tensors else _OUTPUT_ARRAY
        read = filled(template, x=theirs(name), name=name, owner=owner, number=number)
        return self._wanted(name, read)

    def release(self) -> list[str]:
        """The lines that forget what is kept."""
        forget = []
        for param in self.plan.inputs:
            forget += [f"self.s_{param.name} = freed", f"self.s_{param.name}_v = 0"]
        for name in self.plan.outputs:
            forget += [f"self.s_{name} = freed", f"self.s_{name}_c = freed._cell"]
        return block("def _release(self, freed)", forget)


def _results(calls: list[str]) -> str:
    """The tuple of gradients; an empty call stands for one that is in its variable already."""
    if len(calls) == 1:
        return f"({calls[0] or 'r0'},)"
    listed = [
        f"{call} if e{i} is not None else None" if call else f"r{i}" for i, call in enumerate(calls)
    ]
    return f"({', '.join(listed)})"
