"""The form of an operator that hands what it saves to the user's saved-tensor hooks.

The straight line leaves for it where hooks are all that is unusual. Inputs are packed before
anything is computed: a hook that raises leaves all as it was, and one that has seen enough saves
the work. Then the call goes on as without hooks, what was packed takes the place of what the node
keeps, and outputs are packed last, with their history.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from pullback.core.mode import fast
from pullback.core.node import Output
from pullback.core.saved import pack_plainly
from pullback.core.tensor import Tensor
from pullback.core.view import NOWHERE, View, edge_of
from pullback.operators.declare import Op
from pullback.operators.writing.plan import plan_of
from pullback.operators.writing.steps import saves_tensors

__all__ = ["hooked_form"]


def hooked_form(op: Op, scope: dict[str, Any], plainly: Any) -> Any:
    """The form for a function whose globals are `scope`, and whose straight line is `plainly`."""
    plan, saves, first = plan_of(op), saves_tensors(op), len(op.positional)
    names = [param.name for param in op.params]
    inputs = [(names.index(param.name), param.name in op.rules) for param in op.inputs]
    kept = [
        (names.index(one.name), plan.users(one.name), f"s_{one.name}", f"s_{one.name}_v")
        for one in plan.inputs
    ]

    def hooked(mode: Any, *values: Any) -> Any:
        usual, edges = fast.plain is not None, []
        if usual and not (saves and mode.grad):
            return plainly(mode.usual, *values)
        for place, has_rule in inputs:
            one, edge = values[place], None
            if one.__class__ is Tensor:
                edge = one._node
                if edge is not None and edge._special:
                    edge = edge_of(one)
                usual = usual and type(one._array) is ndarray and edge is not NOWHERE
            elif isinstance(one, Tensor):
                usual = False
            if has_rule:
                edges.append(edge)
        if not usual:
            kwargs = dict(zip(names[first:], values[first:], strict=True))
            return scope["call"](op, values[:first], kwargs)
        packed = []
        for place, rules, slot, version in kept:
            one = values[place]
            for i in rules:
                if edges[i] is not None and one.__class__ is Tensor:
                    node = edge_of(one) if one._node.__class__ is View else one._node
                    packed.append((slot, pack_plainly(mode, one, node, output=False)))
                    packed.append((version, one._cell[0]))
                    break
        made = plainly(mode.usual, *values)
        results = made if made.__class__ is tuple else (made,)
        for one in results:
            if one._node is not None:
                node = one._node.node if one._node.__class__ is Output else one._node
                for slot, value in packed:
                    setattr(node, slot, value)
                for name in plan.outputs:
                    keep_packed(mode, node, name, results[op.outputs.index(name)])
                break
        return made

    return hooked


def keep_packed(mode: Any, node: Any, name: str, result: Tensor) -> None:
    """Have a node keep what the hook makes of an output."""
    packed = pack_plainly(mode, result, None, output=True)
    setattr(node, f"s_{name}", packed)
    setattr(node, f"s_{name}_c", packed._cell)
    setattr(node, f"s_{name}_v", result._cell[0])
