"""Which groups are alike: the same operations on operands that lie alike, in other buffers.

A loop that Python unrolled gives hundreds of those (`repeats.py`); their code is written once.
"""

from __future__ import annotations

from typing import Any

from pullback.compiled.ir.values import Val
from pullback.compiled.plan.plan import Group, Plan

__all__ = ["likeness"]


def likeness(plan: Plan, group: Group) -> tuple[Any, list[tuple[int, int]]]:
    """A key that groups alike have in common, and where operands begin, in the key's order.

    That is a slot, and bytes from there on.
    """
    begins: dict[tuple[int, int], int] = {}
    numbers = {v.id: number for number, v in enumerate(group.nodes)}

    def operand(one: Val) -> Any:
        one = plan.builder.strip(one)
        if one.op == "const":
            return repr(one.attr[0]), one.dtype  # by its text: zeros have signs
        if one.op == "iota":
            return one.op
        if group.is_local(one):
            return numbers[one.id]
        slot, bytes_on, off = plan.slot[one.base.id], 0, one.off
        if plan.is_fixed(off):
            bytes_on, off = off * one.itemsize, off != 0  # whether there are any is in the code
        number = begins.setdefault((slot, bytes_on), len(begins))
        return number, off, one.shape, one.strides, one.dtype

    parts: list[Any] = [group.domain]
    for v in group.nodes:
        operands = tuple([operand(one) for one in v.ins])
        own = None
        if v.id in plan.stored:
            slot = plan.copies.get(v.id, plan.slot[v.id])
            number = begins.setdefault((slot, 0), len(begins))
            own = number, v.id in plan.copies, plan.blocks.get(v.id)
        parts.append((v.op, v.attr, v.dtype, v.shape, own, operands))
        if v.op == "take" and plan.fault is not None:
            begins.setdefault((plan.fault, 0), len(begins))
    return tuple(parts), list(begins)
