"""Writes the node class of an operator.

The class that one would write by hand, with slots for exactly what its rules ask for. Here because
both the built and the interpreted forward make the same nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat, starmap
from typing import Any

import numpy

from pullback.core import arrays, saved
from pullback.core.arrays import Array
from pullback.core.forward import LEVELS, open_levels
from pullback.core.mode import get_mode
from pullback.core.node import OperatorNode, Output
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, new, wrap
from pullback.operators.arrays.threads import setting
from pullback.operators.declare import Op, Param
from pullback.operators.running.declared_node import DeclaredNode, saved_names
from pullback.operators.running.followed import followed, is_followed
from pullback.operators.writing.common import COMMON
from pullback.operators.writing.inline import SIGNS, Inlined, inlined
from pullback.operators.writing.plan import Plan, plan_of, several_outputs
from pullback.operators.writing.specialise import on_arrays
from pullback.operators.writing.writer import block, define, theirs

_classes: dict[Op, type[OperatorNode]] = {}


def several_tensors(op: Op) -> bool:
    """Whether a Python number can stand for one of the inputs, another one being a tensor."""
    return len(op.inputs) > 1


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
        made._run = written_class(op, {}, on_arrays)._run  # type: ignore[method-assign]  # of classes that are written


def written_class(
    op: Op,
    names: dict[str, Any],
    specialise: Callable[[Any], Any],
    fuse: Callable[[Inlined, str], Inlined | None] | None = None,
) -> type[OperatorNode]:
    """A node class: `names` mean something else in its code, `specialise` brings rules to arrays.

    `fuse` may make one call of the lines of a rule.
    """
    plan = plan_of(op)
    lines = [inlined(op, param, f"t{i}_") for i, param in enumerate(plan.edges)]
    if fuse is not None:
        for i, one in enumerate(lines):
            if one is not None:
                lines[i] = fuse(one, f"t{i}_") or one
    members: dict[str, Any] = {}
    how = names, specialise
    elsewhere = bool(names)
    for name, tensors in (("_run", False), ("_run_tensors", True)):
        source = _running(plan, lines, name, tensors=tensors, elsewhere=elsewhere)
        members[name] = _defined(name, source, plan, lines, tensors, *how)
    if is_followed(op.node_name):
        members["_run_tensors"] = followed(members["_run_tensors"])
    if release := _release(plan):
        members["_release"] = _defined("_release", release, plan, [], False, *how)
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
    plan = plan_of(op)
    lines = [inlined(op, param, f"t{i}_") for i, param in enumerate(plan.edges)]
    name = "_tensor_rules" if tensors else "_rules"
    source = _running(plan, lines, name, tensors=tensors, elsewhere=bool(names), apart=True)
    made: Callable[..., tuple[Any, ...]] = _defined(
        name, source, plan, lines, tensors, names, specialise
    )
    return made


def _defined(
    name: str,
    source: list[str],
    plan: Plan,
    lines: list[Inlined | None],
    tensors: bool,
    names: dict[str, Any],
    specialise: Callable[[Any], Any],
) -> Any:
    """The method that `source` defines."""
    scope: dict[str, Any] = {
        **COMMON,
        "input_array": saved.input_array,
        "input_tensor": saved.input_tensor,
        "output_array": saved.output_array,
        "output_tensor": output_tensor,
        "fill_missing": fill_missing,
        "LEVELS": LEVELS,
        "NO_NUMBERS": {},
        **{ufunc.__name__: ufunc for ufunc in SIGNS.values()},
    }
    for i, param in enumerate(plan.edges):
        rule = plan.op.rules[param.name]
        scope[f"rule_{i}"] = rule if tensors else specialise(rule)
    if plan.op.fused_backward is not None:
        scope["fused_backward"] = specialise(plan.op.fused_backward)
    for one in lines:
        if one is not None:
            scope |= one.tensor_scope if tensors else _specialised(one.array_scope, specialise)
    scope |= names
    # Some operators share a node's name: their lines must not.
    where = f"{plan.op.name}: {plan.op.node_name}.{name}{', elsewhere' if names else ''}"
    return define(source, scope, where)


def _specialised(scope: dict[str, Any], specialise: Callable[[Any], Any]) -> dict[str, Any]:
    """What written lines name besides the inputs: kernels on NumPy, unless brought elsewhere."""
    return scope if specialise is on_arrays else {n: specialise(one) for n, one in scope.items()}


def _running(
    plan: Plan,
    inlined_rules: list[Inlined | None],
    name: str,
    *,
    tensors: bool,
    elsewhere: bool = False,
    apart: bool = False,
) -> list[str]:
    """The lines of a method; `apart`: of a function that is given what the node keeps."""
    op = plan.op
    edges = [f"e{i}" for i in range(len(plan.edges))]
    sequence = len(plan.edges) == 1 and plan.edges[0].kind == "tensors"
    lines = [] if sequence else [f"{''.join(edge + ', ' for edge in edges)} = edges"]
    lines += _gradient_lines(op, tensors=tensors, apart=apart)
    for param in plan.inputs:
        if apart and _may_be_number(plan):
            met = f"type({param.local}) is not ndarray and type(g) is ndarray"
            lines += block(f"if {met}", _number_lines(plan, param.local))
        lines += [] if apart else _read_input(plan, param, tensors=tensors, guarded=not sequence)
        if elsewhere and not tensors and param.kind != "tensors":
            # A number of the host, as a tensor, beside arrays that are elsewhere.
            met = f"type({param.local}) is HOST and not {param.local}.ndim"
            read = block(f"if {met}", [f"{param.local} = {param.local}[()]"])
            lines += _guarded(plan, param.name, read, guarded=not sequence)
    if not apart:
        for output in plan.outputs:
            lines += _read_output(plan, output, tensors=tensors, guarded=not sequence)
        lines += [f"{theirs(one)} = self.s_{one}" for one in (*plan.options, *plan.derived)]
    calls = [f"rule_{i}({plan.given(op.rules[p.name])})" for i, p in enumerate(plan.edges)]
    kept = "".join(f", {theirs(one)}=None" for one in plan.kept)
    head = f"def {name}(edges, g, /{kept})" if apart else f"def {name}(self, g, edges)"
    if sequence:
        return block(head, [*lines, f"return {calls[0]}"])
    if op.fused_backward is not None and not tensors:
        others = " or ".join(f"{edge} is not None" for edge in edges[1:])
        joint = f"return fused_backward({plan.given(op.fused_backward, 'edges')})"
        lines += block(f"if e0 is not None and ({others})", [joint])
    split = setting.splits and not tensors and not elsewhere
    lines += _rule_lines(inlined_rules, calls, tensors=tensors, split=split)
    return block(head, [*lines, f"return {_results(calls)}"])


def _gradient_lines(op: Op, *, tensors: bool, apart: bool) -> list[str]:
    """Give the gradients of several outputs the names that rules have for them."""
    if several_outputs(op):
        filled = [] if apart else [f"g = fill_missing(self, g, {tensors})"]
        if op.outputs == ("*",):
            return filled
        names = [f"g_{n}" if n not in op.fixed_outputs else "_" for n in op.outputs]
        return [*filled, f"{', '.join(names)} = g"]
    return [f"{op.gradient_names[0]} = g"] if len(op.outputs) > 1 else []


def _rule_lines(
    rules: list[Inlined | None], calls: list[str], *, tensors: bool, split: bool
) -> list[str]:
    """The rules that are written out; their calls become empty. Large arrays may be `split`."""
    if not any(rules):
        return []
    lines = _leave_lines(rules, calls, tensors=tensors)
    if not tensors and any(one is not None and one.has_numbers for one in rules):
        lines += _NUMBER_LINES
    noted = {i: one for i, one in enumerate(rules) if one is not None}
    for i in noted:
        calls[i] = ""
    if split and any(one.large_lines != one.array_lines for one in noted.values()):
        shared = _noted(noted, len(calls), "large_lines")
        lines += block("if g.size >= LARGE", [*shared, f"return {_results(calls)}"])
    return lines + _noted(noted, len(calls), "tensor_lines" if tensors else "array_lines")


def _noted(rules: dict[int, Inlined], count: int, which: str) -> list[str]:
    """One of the forms of the rules' lines, those of what nobody wants left out."""
    lines: list[str] = []
    for i, one in rules.items():
        own = [*getattr(one, which), f"r{i} = {one.result}"]
        lines += own if count == 1 else [f"r{i} = None", *block(f"if e{i} is not None", own)]
    return lines


# An array takes twice as long with a Python number as with an array of no dimensions; a NumPy
# scalar, as gradients of 0-d tensors are, is quickest with the number.
_NUMBER_LINES = [
    "numbers = NO_NUMBERS",
    "if type(g) is ndarray:",
    "    if g.dtype is F64:",
    "        numbers = numbers64",
    "    elif g.dtype is F32:",
    "        numbers = numbers32",
]


def _leave_lines(rules: list[Inlined | None], calls: list[str], *, tensors: bool) -> list[str]:
    """Call the rules after all where the written lines do not hold."""
    unusual = [
        f"{theirs(name)} is not {value}"
        for one in rules
        if one is not None
        for name, value in one.usual.items()
    ]
    if any(one is not None and one.only_real for one in rules):
        # Whoever is one of two objects need not be asked for its kind: a third of the time.
        found = f"(dtype := {'g._array' if tensors else 'g'}.dtype)"
        unusual.append(f"({found} is not F64 and dtype is not F32 and dtype.kind in 'cW')")
    if not unusual:
        return []
    return block(f"if {' or '.join(unusual)}", [f"return {_results(calls)}"])


def _results(calls: list[str]) -> str:
    """The tuple of gradients; an empty call stands for one that is in its variable already."""
    if len(calls) == 1:
        return f"({calls[0] or 'r0'},)"
    listed = [
        f"{call} if e{i} is not None else None" if call else f"r{i}" for i, call in enumerate(calls)
    ]
    return f"({', '.join(listed)})"


def _guarded(plan: Plan, name: str, read: list[str], *, guarded: bool) -> list[str]:
    """Lines that read what some rules ask for, if one of those is wanted."""
    users = plan.users(name)
    if not guarded or len(users) == len(plan.edges):
        return read
    return block(f"if {' or '.join(f'e{i} is not None' for i in users)}", read)


def _read_input(plan: Plan, param: Param, *, tensors: bool, guarded: bool) -> list[str]:
    name, local = param.name, param.local
    if param.kind == "tensors":
        read = [f"{local} = input_{'tensor' if tensors else 'array'}(self, '{name}')"]
    elif tensors:
        read = [
            f"{local} = self.s_{name}",
            f"version = self.s_{name}_v",
            f"if version is not None and {local}._cell[0] != version:",
            f"    {local} = input_tensor(self, '{name}')",
        ]
    else:
        read = [
            f"{local} = self.s_{name}",
            f"version = self.s_{name}_v",
            "if version is not None:",
            f"    {local} = {local}._array if {local}._cell[0] == version "
            f"else input_array(self, '{name}')",
        ]
        if _may_be_number(plan):
            read += block("elif type(g) is ndarray", _number_lines(plan, local))
    return _guarded(plan, name, read, guarded=guarded)


def _may_be_number(plan: Plan) -> bool:
    return plan.op.kind == "elementwise" and plan.op.numbers and several_tensors(plan.op)


def _number_lines(plan: Plan, local: str) -> list[str]:
    """As _NUMBER_LINES, for an input that is a number.

    Beside half precision it is not rounded itself, where the operator's forward does not either.
    """
    lines = [
        "if g.dtype is F64:",
        f"    {local} = numbers64.get({local}, {local})",
        "elif g.dtype is F32:",
        f"    {local} = numbers32.get({local}, {local})",
    ]
    if plan.op.wide_numbers:
        lines += [f"elif g.dtype is F16 and {local} is not None:",
                  f"    {local} = float32({local})"]  # fmt: skip
    return lines


def _read_output(plan: Plan, name: str, *, tensors: bool, guarded: bool) -> list[str]:
    local = theirs(name)
    if tensors:
        number = plan.op.outputs.index(name)
        slow = f"{local} = output_tensor(self, '{name}', {number})"
        fixed = name in plan.op.fixed_outputs
        owner = "None" if fixed else "self"
        if several_outputs(plan.op) and not fixed:
            owner = f"self._output({number})"
        # The plain case of `output_tensor`: not packed by hooks, not written to, no forward mode.
        read = [
            f"array = self.s_{name}",
            "if type(array) is ndarray and not LEVELS and not get_mode().dispatch and "
            f"self.s_{name}_c[0] == self.s_{name}_v:",
            f"    {local} = new(Tensor)",
            f"    {local}._array = array",
            f"    {local}._cell = self.s_{name}_c",
            f"    {local}._node = {owner}",
            "else:",
            f"    {slow}",
        ]
    else:
        read = [
            f"{local} = self.s_{name}",
            f"if self.s_{name}_c[0] != self.s_{name}_v:",
            f"    {local} = output_array(self, '{name}')",
        ]
    return _guarded(plan, name, read, guarded=guarded)


def _release(plan: Plan) -> list[str]:
    forget = []
    for param in plan.inputs:
        forget += [f"self.s_{param.name} = freed", f"self.s_{param.name}_v = 0"]
    for name in plan.outputs:
        forget += [f"self.s_{name} = freed", f"self.s_{name}_c = freed._cell"]
    return block("def _release(self, freed)", forget) if forget else []


def output_tensor(node: Any, name: str, number: int) -> Any:
    """A saved output as a tensor again, in its place in the graph."""
    value = getattr(node, "s_" + name)
    fixed = name in node.op.fixed_outputs
    edge = None if fixed else node._output(number) if several_outputs(node.op) else node
    if type(value) is saved.Packed:
        tensor = value.unpack(edge)
    else:
        array = saved.output_array(node, name)
        # A Tensor: of a class that answers below autograd.
        tensor = array.detach() if isinstance(array, Tensor) else wrap(array)
        if get_mode().dispatch and tensor.__class__ is Tensor:
            tensor = ports.detached_below(tensor)  # which the user's mode is shown
        tensor._cell = getattr(node, "s_" + name + "_c")
        tensor._node = edge
    for level in open_levels():
        level.put(tensor, level.kept(node, name))
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
    _make_zeros: Any = staticmethod(numpy.zeros)

    def _output(self, number: int) -> Output:
        """Where the gradient of one output goes."""
        return Output(self, number, *self._g_sizes[number])

    def _zeros(self, number: int, *, tensors: bool) -> Array:
        """What a missing gradient counts as."""
        zeros = self._make_zeros(*self._g_sizes[number])
        return wrap(zeros) if tensors else zeros
