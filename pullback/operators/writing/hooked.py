"""Writes the form of an operator that hands what it saves to the user's saved-tensor hooks.

The straight line leaves for it where hooks are all that is unusual. Inputs are packed before
anything is computed: a hook that raises leaves all as it was, and one that has seen enough saves
the work. Then the call goes on as without hooks, what was packed takes the place of what the node
keeps, and outputs are packed last, with their history.
"""

from __future__ import annotations

from pullback.operators.declare import Op
from pullback.operators.writing.call import arguments, everything
from pullback.operators.writing.plan import plan_of, several_outputs
from pullback.operators.writing.record import edge_lines, nowhere_lines
from pullback.operators.writing.steps import maybe_number, saves_tensors
from pullback.operators.writing.writer import block, either, filled

__all__ = ["hooked_lines_of"]

_HOOKED = """
def hooked(mode, {arguments}):
    if fast.plain is None:
        {leave}
    if {saves_nothing}:
        return plainly(mode.usual, {arguments})
    {looked_at}
    {edges}
    {nowhere}
    {packed}
    {results} = plainly(mode.usual, {arguments})
    if {result}._node is not None:
        node = {result}._node{owner}
        {kept}
    return {results}
"""


def hooked_lines_of(op: Op) -> list[str]:
    """The function; `mode` is one of class `Hooked`."""
    plan, number, saves = plan_of(op), maybe_number(op), saves_tensors(op)
    results = [f"result{i}" for i in range(len(op.outputs))]
    differentiable = [i for i, name in enumerate(op.outputs) if name not in op.fixed_outputs]
    looked_at = [f"is_number = type({number.local}) in (float, int)"] if number else []
    conditions = []
    for param in op.inputs if saves else ():
        absent = f"{param.local} is None" if param.kind == "optional" else ""
        absent = "is_number" if param is number else absent
        x = param.local
        other = f"{x}.__class__ is not Tensor or type({x}._array) is not ndarray"
        conditions.append(f"not {absent} and ({other})" if absent else other)
    leave = f"return call(op, {everything(op)})"
    packed, kept = [], []
    for param in plan.inputs if saves else ():
        slot, x = f"s_{param.name}", param.local
        needed = " or ".join(f"n{i} is not None" for i in plan.users(param.name))
        place = f"edge_of({x}) if {x}._node.__class__ is View else {x}._node"
        made = f"p_{param.name} = pack(mode, {x}, {place}, output=False), {x}._cell[0]"
        packed.append(f"p_{param.name} = None")
        packed += block(f"if {x}.__class__ is Tensor and ({needed})", [made])
        put = f"node.{slot}, node.{slot}_v = p_{param.name}"
        kept += block(f"if p_{param.name} is not None", [put])
    for name in plan.outputs if saves else ():
        slot, result = f"s_{name}", results[op.outputs.index(name)]
        kept += [
            f"node.{slot} = packed = pack(mode, {result}, None, output=True)",
            f"node.{slot}_c, node.{slot}_v = packed._cell, {result}._cell[0]",
        ]
    return filled(
        _HOOKED,
        arguments=arguments(op),
        leave=leave,
        saves_nothing="not mode.grad" if saves else "True",
        looked_at=[*looked_at, *either(conditions, [leave])],
        edges=edge_lines(op) if saves else [],
        nowhere=nowhere_lines(op, leave) if saves else [],
        packed=packed,
        results=", ".join(results),
        result=results[differentiable[0]] if saves else "result0",
        owner=".node" if several_outputs(op) else "",
        kept=kept or ["pass"],
    )
