"""Writes the form of an operator that hands what it saves to the user's saved-tensor hooks.

The straight line leaves for it where hooks are all that is unusual, and has checked the rest.
Inputs are packed before anything is computed: a hook that raises leaves all as it was, and one that
has seen enough saves the work. Outputs are packed last, with their history. Operators that save
no tensors have no such form; they run as without hooks.
"""

from __future__ import annotations

from pullback.operators.declare import Op, Param
from pullback.operators.writing.call import arguments, everything
from pullback.operators.writing.nodes import Plan
from pullback.operators.writing.record import (
    PLACED,
    bare_node_lines,
    edge_lines,
    frame_lines,
    outputs_lines,
    wrapped_lines,
)
from pullback.operators.writing.steps import (
    array_lines,
    computed_lines,
    maybe_number,
    mixed_lines,
    normalised_lines,
    takes_mixed,
)

__all__ = ["hooked_source_of"]


def hooked_source_of(op: Op) -> str:
    """The Python source; `mode` is one of class `Hooked`, with grad mode on."""
    plan = Plan(op)
    leave = f"return call(op, {everything(op, out=False)})"
    mixed = takes_mixed(op)
    tracked = " or ".join(f"n{i} is not None" for i in range(len(plan.edges)))
    lines = [f"def hooked(mode, {arguments(op)}):"]
    if any(param.name == "dtype" for param in op.params):  # whole numbers have no history
        lines += ["    if dtype is not None:", f"        {leave}"]
    lines += array_lines(op, leave, mixed=mixed)
    lines += mixed_lines(op, leave) if mixed else []
    lines += [*normalised_lines(op), *edge_lines(op, leave), f"    tracked = {tracked}"]
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
        "    if not tracked:",
        f"        {cells} = inherited({', '.join(param.name for param in op.inputs)})",
        f"        {finished}",
        *bare_node_lines(op, plan),
    ]
    for param in plan.inputs:
        name = param.name
        lines += [f"    node.s_{name} = p_{name}", f"    node.s_{name}_v = v_{name}"]
    lines += [*frame_lines(2), *PLACED]
    lines += outputs_lines(op) if several else ["    result._node = node"]
    for name in plan.outputs:
        result = names[op.outputs.index(name) if several else 0]
        lines += [
            f"    node.s_{name} = packed = pack(mode, {result}, None, output=True)",
            f"    node.s_{name}_c = packed._cell",
            f"    node.s_{name}_v = {result}._cell[0]",
        ]
    return "\n".join([*lines, f"    {finished}"])


_ONE = [
    "    if type(r) is not ndarray:",
    "        r = asarray(r)",
    "    result = new(Tensor)",
    "    result._array = r",
    "    result._cell = UNWRITTEN",
    "    result._node = None",
]


def _packed(op: Op, plan: Plan, param: Param) -> list[str]:
    """What the hook makes of an input, where a rule of an edge that leads somewhere asks for it."""
    name = param.name
    users = plan.users(name)
    lines = [
        f"    p_{name} = v_{name} = None",
        f"    if {' or '.join(f'n{i} is not None' for i in users)}:",
    ]
    if param is maybe_number(op):
        lines += ["        if is_number:", f"            p_{name} = {name}", "        else:"]
    else:
        lines += [f"        if {name} is not None:"]
    return [
        *lines,
        f"            place = {name}._node",
        "            if place.__class__ is View:",
        f"                place = edge_of({name})",
        f"            p_{name} = pack(mode, {name}, place, output=False)",
        f"            v_{name} = {name}._cell[0]",
    ]
