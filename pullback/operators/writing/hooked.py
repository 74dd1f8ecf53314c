"""Writes the form of an operator that hands what it saves to the user's saved-tensor hooks.

The fast path leaves for it where hooks are all that is unusual, and has checked the rest.
Inputs are packed before anything is computed: a hook that raises leaves all as it was, and one that
has seen enough saves the work. Outputs are packed last, with their history. Operators that save
no tensors have no such form; they run as without hooks.
"""

from __future__ import annotations

from pullback.operators.declare import Op, Param
from pullback.operators.writing.call import arguments, everything
from pullback.operators.writing.plan import Plan, plan_of
from pullback.operators.writing.record import (
    PLACED,
    bare_node_lines,
    edge_lines,
    frame_lines,
    nowhere_lines,
    outputs_lines,
    wrapped_lines,
)
from pullback.operators.writing.steps import (
    array_lines,
    computed_lines,
    maybe_number,
    mixed_lines,
    normalised_lines,
    saves_tensors,
    takes_mixed,
)
from pullback.operators.writing.writer import block, theirs

__all__ = ["hooked_lines_of"]


def hooked_lines_of(op: Op) -> list[str]:
    """The function; `mode` is one of class `Hooked`."""
    bail_out = f"return call(op, {everything(op, out=False)})"
    head = f"def hooked(mode, {arguments(op)})"
    unhooked = f"return plainly(mode.usual, {arguments(op)})"
    detoured = block("if fast.plain is None", [bail_out])
    if not saves_tensors(op):
        return block(head, [*detoured, unhooked])
    plan = plan_of(op)
    mixed = takes_mixed(op)
    tracked = " or ".join(f"n{i} is not None" for i in range(len(plan.edges)))
    lines = [*detoured, *block("if not mode.grad", [unhooked])]
    if any(param.name == "dtype" for param in op.params):  # whole numbers have no history
        lines += block(f"if {theirs('dtype')} is not None", [bail_out])
    lines += array_lines(op, bail_out, mixed=mixed)
    lines += mixed_lines(op, bail_out) if mixed else []
    lines += [*normalised_lines(op), *edge_lines(op), *nowhere_lines(op), f"tracked = {tracked}"]
    for param in plan.inputs:
        lines += _packed(op, plan, param)
    lines += computed_lines(op)
    several = len(op.outputs) > 1
    made = wrapped_lines(op, []) if several else _ONE
    names = [f"result{i}" if several else "result" for i in range(len(op.outputs))]
    finished = f"return {', '.join(names)}"
    cells = " = ".join(f"{name}._cell" for name in names)
    lines += [
        *made,
        "if not tracked:",
        f"    {cells} = inherited({', '.join(param.local for param in op.inputs)})",
        f"    {finished}",
        *bare_node_lines(op, plan),
    ]
    for param in plan.inputs:
        name = param.name
        lines += [f"node.s_{name} = p_{name}", f"node.s_{name}_v = v_{name}"]
    lines += [*frame_lines(2), *PLACED]
    lines += outputs_lines(op) if several else ["result._node = node"]
    for name in plan.outputs:
        result = names[op.outputs.index(name) if several else 0]
        lines += [
            f"node.s_{name} = packed = pack(mode, {result}, None, output=True)",
            f"node.s_{name}_c = packed._cell",
            f"node.s_{name}_v = {result}._cell[0]",
        ]
    return block(head, [*lines, finished])


_ONE = [
    "if type(r) is not ndarray:",
    "    r = asarray(r)",
    "result = next(blanks)",
    "result._array = r",
    "result._cell = UNWRITTEN",
    "result._node = None",
]


def _packed(op: Op, plan: Plan, param: Param) -> list[str]:
    """What the hook makes of an input, where a rule of an edge that leads somewhere asks for it."""
    name, local = param.name, param.local
    packed = [
        f"place = {local}._node",
        *block("if place.__class__ is View", [f"place = edge_of({local})"]),
        f"p_{name} = pack(mode, {local}, place, output=False)",
        f"v_{name} = {local}._cell[0]",
    ]
    if param is maybe_number(op):
        packed = [*block("if is_number", [f"p_{name} = {local}"]), *block("else", packed)]
    else:
        packed = block(f"if {local} is not None", packed)
    needed = " or ".join(f"n{i} is not None" for i in plan.users(name))
    return [f"p_{name} = v_{name} = None", *block(f"if {needed}", packed)]
