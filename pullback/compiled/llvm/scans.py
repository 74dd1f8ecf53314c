"""Running sums as LLVM functions."""

from __future__ import annotations

import math

from pullback.compiled.ir.values import Val
from pullback.compiled.llvm.emit import ELEMENTS, Blocks
from pullback.compiled.plan.plan import Plan

__all__ = ["scan_texts"]


def scan_texts(plan: Plan, name: str, v: Val) -> list[str]:
    """Line after line along a dimension, from its start or from its end."""
    dim, back = v.attr
    (x,) = v.ins
    em, e = Blocks(), ELEMENTS[v.dtype]
    bases = []
    for one in (x, v):
        at = em.t(f"getelementptr ptr, ptr %B, i64 {plan.slot[one.base.id]}")
        bases.append(em.t(f"load ptr, ptr {at}"))
    others = [d for d in range(len(v.shape)) if d != dim]
    n = v.shape[dim]
    kind = "double" if e == "float" else e
    add = "fadd" if kind == "double" else "add"
    with em.loop(math.prod([v.shape[d] for d in others])) as line:
        starts = []
        for one, base in zip((x, v), bases, strict=True):
            offset, step = em.t(f"add i64 {one.off}, 0"), 1
            for d in reversed(others):
                place = em.t(f"urem i64 {em.t(f'udiv i64 {line}, {step}')}, {v.shape[d]}")
                offset = em.t(f"add i64 {offset}, {em.t(f'mul i64 {place}, {one.strides[d]}')}")
                step = step * v.shape[d]
            starts.append(em.t(f"getelementptr {e}, ptr {base}, i64 {offset}"))
        zero = em.number(0, kind, 1)
        with em.carrying(n, [(kind, zero)]) as (number, (total,), after):
            place = em.t(f"sub i64 {n - 1}, {number}") if back else number
            p, q = (
                em.t(f"getelementptr {e}, ptr {start}, i64 {em.t(f'mul i64 {place}, {stride}')}")
                for start, stride in zip(starts, (x.strides[dim], v.strides[dim]), strict=True)
            )
            read = em.t(f"load {e}, ptr {p}")
            if kind != e:
                read = em.t(f"fpext {e} {read} to {kind}")
            total = em.binary(add, total, read, kind, 1)
            after.append(total)
            made = em.t(f"fptrunc {kind} {total} to {e}") if kind != e else total
            em.raw(f"  store {e} {made}, ptr {q}")
    head = f"define void @{name}(ptr %B) #0 {{\nentry:"
    return ["\n".join([head, *em.lines, "  ret void", "}"])]
