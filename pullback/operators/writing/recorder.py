"""Writes the function that gives a result its node, where the result came from a handler.

The last lines of an operator's fast path, by themselves: what `recording.py` does step by step
for any call takes 7 us, which is more than a handler does.
"""

from __future__ import annotations

from typing import Any

from pullback.operators.declare import Op
from pullback.operators.writing.call import arguments
from pullback.operators.writing.plan import plan_of
from pullback.operators.writing.record import edge_lines, node_lines, nowhere_lines
from pullback.operators.writing.steps import has_fast_path, maybe_number
from pullback.operators.writing.writer import block, define

__all__ = ["recorder_of"]

_recorders: dict[Op, Any] = {}


def recorder_of(op: Op) -> Any:
    """A function of a result and the arguments by name, written when first needed.

    It gives the result its node and tells whether it could; None for operators that need more.
    """
    known = _recorders.get(op, _recorders)
    if known is _recorders:
        known = _recorders[op] = _written(op) if _is_usual(op) else None
    return known


def _is_usual(op: Op) -> bool:
    return (
        has_fast_path(op)
        and bool(op.rules)
        and op.kind != "view"
        and len(op.outputs) == 1
        and not plan_of(op).outputs
    )


def _written(op: Op) -> Any:
    from pullback.operators.writing.build import scope_of  # which imports who calls here

    return define(lines_of(op), scope_of(op), f"record {op.name}")


def lines_of(op: Op) -> list[str]:
    """The function."""
    number = maybe_number(op)
    derived = {name.rpartition("_")[0] for name in plan_of(op).derived}
    arrays = [
        f"a{i} = None if {param.local} is None else asarray(getattr({param.local}, '_array', "
        f"{param.local}))"
        for i, param in enumerate(op.inputs)
        if param.name in derived
    ]
    edges = [f"n{i}" for i in range(len(op.differentiable))]
    others = [param.local for param in op.differentiable if param is not number]
    untracked = " and ".join(f"{edge} is None" for edge in edges)
    nowhere = ["result._node = None", "return True"]
    lines = [f"is_number = not isinstance({number.local}, Tensor)"] if number else []
    for name in others:
        no_tensor = f"{name} is not None and not isinstance({name}, Tensor)"
        lines += block(f"if {no_tensor}", ["return False"])
    lines += [
        *edge_lines(op),
        *block(f"if {untracked}", nowhere),
        *nowhere_lines(op, "return False"),
        "r = result._array",
        *block("if r.dtype.kind not in 'fcV'", nowhere),
        *arrays,
        *node_lines(op),
        "result._node = node",
        "return True",
    ]
    return block(f"def recorded(result, {arguments(op)})", lines)
