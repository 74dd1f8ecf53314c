"""Writes what the straight line has more where saved-tensor hooks are all that is unusual.

Inputs are packed before anything is computed: a hook that raises leaves all as it was, and one that
has seen enough saves the work. Outputs are packed last, with their history.
"""

from __future__ import annotations

from pullback.operators.declare import Op
from pullback.operators.writing.plan import plan_of

__all__ = ["packed_inputs", "packed_outputs"]


def packed_inputs(op: Op) -> list[str]:
    """What the hook makes of inputs, where a rule of an edge that leads somewhere asks for them."""
    plan, lines = plan_of(op), []
    for param in plan.inputs:
        name, x = param.name, param.local
        needed = " or ".join(f"n{i} is not None" for i in plan.users(name))
        place = f"edge_of({x}) if {x}._node.__class__ is View else {x}._node"
        lines += [
            f"p_{name}, v_{name} = {x} if {needed} else None, None",
            f"if p_{name}.__class__ is Tensor:",
            f"    p_{name} = pack(hooks, {x}, {place}, output=False)",
            f"    v_{name} = {x}._cell[0]",
        ]
    return lines


def packed_outputs(op: Op) -> list[str]:
    """The same of outputs, once they have their node."""
    lines = []
    for name in plan_of(op).outputs:
        result = f"result{op.outputs.index(name) if len(op.outputs) > 1 else ''}"
        lines += [
            f"node.s_{name} = packed = pack(hooks, {result}, None, output=True)",
            f"node.s_{name}_c = packed._cell",
        ]
    return lines
