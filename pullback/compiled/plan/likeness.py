"""Which groups are alike: the same operations on operands that lie alike, in other buffers.

A loop that Python unrolled gives hundreds of those (`repeats.py`); their code is written once.
"""

from __future__ import annotations

from typing import Any

from pullback.compiled.ir.values import Val
from pullback.compiled.plan.plan import Group, Plan

__all__ = ["likeness"]


def likeness(plan: Plan, group: Group) -> tuple[Any, list[int]]:
    """A key that groups alike have in common, and the slots of buffers in the key's order."""
    slots: dict[int, int] = {}
    numbers = {v.id: number for number, v in enumerate(group.nodes)}

    def operand(one: Val) -> Any:
        one = plan.builder.strip(one)
        if one.op == "const":
            return repr(one.attr[0]), one.dtype  # by its text: zeros have signs
        if one.op == "iota":
            return one.op
        if group.is_local(one):
            return numbers[one.id]
        slot = slots.setdefault(plan.slot[one.base.id], len(slots))
        return slot, one.off, one.shape, one.strides, one.dtype

    parts: list[Any] = [group.domain]
    for v in group.nodes:
        operands = tuple([operand(one) for one in v.ins])
        own = None
        if v.id in plan.stored:
            slot = plan.copies.get(v.id, plan.slot[v.id])
            own = slots.setdefault(slot, len(slots)), v.id in plan.copies, plan.blocks.get(v.id)
        parts.append((v.op, v.attr, v.dtype, v.shape, own, operands))
        if v.op == "take" and plan.fault is not None:
            slots.setdefault(plan.fault, len(slots))
    return tuple(parts), list(slots)
