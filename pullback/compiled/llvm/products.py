"""Matrix products: calls of BLAS, whose address stands in the program's table."""

from __future__ import annotations

import math

from pullback.compiled.ir.values import Val
from pullback.compiled.llvm.emit import ELEMENTS, Emitter, literal
from pullback.compiled.plan.plan import Plan, Update

__all__ = ["dot_text"]


def _order(x: Val) -> tuple[int, int]:
    """How BLAS reads a matrix where it lies: as it is or transposed, and its leading dimension."""
    (m, n), (s, t) = x.shape[-2:], x.strides[-2:]
    if t == 1 and (s >= n or m == 1):
        return 111, max(s, n, 1)
    return 112, max(t, m, 1)


def dot_text(
    plan: Plan, name: str, v: Val, slot: int, whole: str, update: Update | None = None
) -> str:
    """One call for each matrix of the batch; `slot` has BLAS's address, `whole` its int type.

    With an `update` the product is added to what is there.
    """
    a, b = v.ins
    e, i = ELEMENTS[v.dtype], whole
    m, k = a.shape[-2:]
    n = b.shape[-1]
    (order_a, lead_a), (order_b, lead_b) = _order(a), _order(b)
    batch, out_strides, lead_c = v.shape[:-2], v.strides[:-2], n
    if v.attr is not None:  # rows of the result lie where a larger array has them
        out_strides, lead_c, batch, m, n = v.attr
    out = v
    if update is not None:
        out, lead_c = update.value, update.value.strides[0]
    count = math.prod(batch)
    lines = [f"define void @{name}(ptr %B, ptr %S, i64 %lo, i64 %hi, i64 %tid) #0 {{", "entry:"]
    for letter, x in (("a", a), ("b", b), ("c", out)):
        lines.append(f"  %{letter}a = getelementptr ptr, ptr %B, i64 {plan.slot[x.base.id]}")
        lines.append(f"  %{letter}0 = load ptr, ptr %{letter}a")
    lines += [f"  %fa = getelementptr ptr, ptr %B, i64 {slot}", "  %f = load ptr, ptr %fa",
              "  br label %loop", "loop:",
              "  %i = phi i64 [ %lo, %entry ], [ %i1, %loop ]"]  # fmt: skip
    em = Emitter()
    at = {}
    strides = {"a": a.strides[:-2], "b": b.strides[:-2], "c": out_strides}
    for letter, x in (("a", a), ("b", b), ("c", v)):
        offset, step = str(x.off), count
        for d, s in zip(batch, strides[letter], strict=True):
            step //= d
            if s and d > 1:
                z = em.t(f"urem i64 {em.t(f'udiv i64 %i, {step}')}, {d}")
                offset = em.t(f"add i64 {offset}, {em.t(f'mul i64 {z}, {s}')}")
        at[letter] = em.t(f"getelementptr {e}, ptr %{letter}0, i64 {offset}")
    lines += em.lines
    one, zero = literal(1, e), literal(0, e)
    if update is not None:
        one, zero = literal(update.factor, e), one
    lines.append(
        f"  call void %f(i32 101, i32 {order_a}, i32 {order_b}, {i} {m}, {i} {n}, {i} {k}, "
        f"{e} {one}, ptr {at['a']}, {i} {lead_a}, ptr {at['b']}, {i} {lead_b}, {e} {zero}, "
        f"ptr {at['c']}, {i} {lead_c})"
    )
    lines += ["  %i1 = add i64 %i, 1", "  %m = icmp slt i64 %i1, %hi",
              "  br i1 %m, label %loop, label %end", "end:", "  ret void", "}"]  # fmt: skip
    return "\n".join(lines)
