"""Movement as LLVM functions: strided copies (parts of cat and pad), and sums of padded parts."""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.ir.values import Val
from pullback.compiled.llvm.alike import PARAMETERS, Shared, Words
from pullback.compiled.llvm.emit import ELEMENTS, Emitter, vector_type
from pullback.compiled.plan.plan import Plan

__all__ = ["cat_texts", "pad_texts", "padsum_texts", "put_texts"]


def _merged(shape: Any, sources: Any, targets: Any) -> list[tuple[int, int, int]]:
    """(length, stride of source, of target), neighbours joined where memory allows."""
    dims: list[tuple[int, int, int]] = []
    for n, a, b in zip(shape, sources, targets, strict=True):
        if n == 1:
            continue
        if dims and dims[-1][1] == n * a and dims[-1][2] == n * b:
            dims[-1] = (dims[-1][0] * n, a, b)
        else:
            dims.append((n, a, b))
    return dims or [(1, 0, 0)]


def copy_text(
    plan: Plan, target: Val, source: Val, offset: int, strides: Any, clear: int = 0
) -> Shared:
    """Write `source` into the buffer of `target` at (offset, strides), after clearing bytes."""
    em, words = Emitter(), Words(plan)
    e = "i8" if source.dtype == "b1" else ELEMENTS[source.dtype]
    dims = _merged(source.shape, source.strides, strides)
    n, a, b = dims[-1]
    rows = math.prod(one[0] for one in dims[:-1])
    words.pointer("s", plan.slot[source.base.id])
    words.pointer("d", plan.slot[target.base.id])
    at_source, at_target = words.offset("from", source.off), words.offset("to", offset)
    lines = [f"{PARAMETERS} #0 {{", "entry:", *words.lines]
    if clear != 0:
        lines.append(f"  call void @llvm.memset.p0.i64(ptr %d, i8 0, i64 {clear}, i1 false)")
    lines += ["  br label %rows", "rows:", "  %r = phi i64 [ 0, %entry ], [ %r1, %inner.end ]"]
    step = rows
    for m, x, y in dims[:-1]:
        step //= m
        q = em.t(f"urem i64 {em.t(f'udiv i64 %r, {step}')}, {m}")
        at_source = em.t(f"add i64 {at_source}, {em.t(f'mul i64 {q}, {x}')}")
        at_target = em.t(f"add i64 {at_target}, {em.t(f'mul i64 {q}, {y}')}")
    p = em.t(f"getelementptr {e}, ptr %s, i64 {at_source}")
    q = em.t(f"getelementptr {e}, ptr %d, i64 {at_target}")
    lines += em.lines
    if a == b == 1 and n > 1:
        size = n * source.itemsize
        lines += [f"  call void @llvm.memcpy.p0.p0.i64(ptr {q}, ptr {p}, i64 {size}, i1 false)",
                  "  br label %inner.end"]  # fmt: skip
    else:
        lines += [
            "  br label %inner", "inner:", "  %c = phi i64 [ 0, %rows ], [ %c1, %inner ]",
            f"  %si = mul i64 %c, {a}", f"  %di = mul i64 %c, {b}",
            f"  %sq = getelementptr {e}, ptr {p}, i64 %si",
            f"  %dq = getelementptr {e}, ptr {q}, i64 %di",
            f"  %x = load {e}, ptr %sq", f"  store {e} %x, ptr %dq", "  %c1 = add i64 %c, 1",
            f"  %m = icmp slt i64 %c1, {n}", "  br i1 %m, label %inner, label %inner.end",
        ]  # fmt: skip
    lines += ["inner.end:", "  %r1 = add i64 %r, 1", f"  %rm = icmp slt i64 %r1, {rows}",
              "  br i1 %rm, label %rows, label %end", "end:", "  ret void", "}"]  # fmt: skip
    return Shared("\n".join(lines), words.words)


def cat_texts(plan: Plan, name: str, v: Val) -> list[Shared]:
    """One copy for each part."""
    texts, at = [], 0
    for x in v.ins:
        offset = at * v.strides[v.attr]
        texts.append(copy_text(plan, v, x, offset, v.strides))
        at += x.shape[v.attr]
    return texts


def put_texts(plan: Plan, name: str, v: Val) -> list[Shared]:
    """A part written over a value: over a copy of it, unless it lies where the value did."""
    whole, part = v.ins
    offset, strides = v.attr
    texts = []
    if v.id not in plan.over:
        texts.append(copy_text(plan, v, whole, 0, v.strides))
    texts.append(copy_text(plan, v, part, offset, strides))
    return texts


def pad_texts(plan: Plan, name: str, v: Val) -> list[Shared]:
    """Zeros with a part written over them."""
    offset, strides = v.attr
    return [copy_text(plan, v, v.ins[0], offset, strides, v.size * v.itemsize)]


def padsum_texts(plan: Plan, name: str, v: Val) -> list[str]:
    """Zeros, and short rows added at their places: a loop over a table for each length of row."""
    e, size = ELEMENTS[v.dtype], v.size * v.itemsize
    rows: dict[int, list[tuple[int, int, int]]] = {}  # length -> slot, offset there, offset here
    fixed: list[tuple[Any, int, int]] = []  # number, length, offset here
    for x, (offset, _) in zip(v.ins, v.attr, strict=True):
        if x.base.op == "const":
            fixed.append((x.base.attr[0], x.size, offset))
        else:
            rows.setdefault(x.size, []).append((plan.slot[x.base.id], x.off, offset))
    em, tables = Emitter(), []
    at = em.t(f"getelementptr ptr, ptr %B, i64 {plan.slot[v.id]}")
    target = em.t(f"load ptr, ptr {at}")
    em.raw(f"  call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")
    for number, n, offset in fixed:
        q = em.t(f"getelementptr {e}, ptr {target}, i64 {offset}")
        _added(em, q, em.number(number, e, n), e, n, v.itemsize)
    before = "entry"
    for n, places in rows.items():
        listed = ", ".join(f"i64 {word}" for place in places for word in place)
        table = f"@{name}_rows{n}"
        tables.append(f"{table} = private constant [{3 * len(places)} x i64] [{listed}]")
        loop = f"rows{n}"
        em.raw(f"  br label %{loop}")
        em.raw(f"{loop}:")
        em.raw(f"  %{loop}.k = phi i64 [ 0, %{before} ], [ %{loop}.n, %{loop} ]")
        row = em.t(f"mul i64 %{loop}.k, 3")
        words = []
        for word in range(3):
            place = em.t(f"getelementptr i64, ptr {table}, i64 {em.t(f'add i64 {row}, {word}')}")
            words.append(em.t(f"load i64, ptr {place}"))
        slot = em.t(f"getelementptr ptr, ptr %B, i64 {words[0]}")
        p = em.t(f"getelementptr {e}, ptr {em.t(f'load ptr, ptr {slot}')}, i64 {words[1]}")
        added = em.t(f"load {vector_type(e, n)}, ptr {p}, align {v.itemsize}")
        q = em.t(f"getelementptr {e}, ptr {target}, i64 {words[2]}")
        _added(em, q, added, e, n, v.itemsize)
        em.raw(f"  %{loop}.n = add i64 %{loop}.k, 1")
        em.raw(f"  %{loop}.m = icmp slt i64 %{loop}.n, {len(places)}")
        before = f"{loop}.end"
        em.raw(f"  br i1 %{loop}.m, label %{loop}, label %{before}")
        em.raw(f"{before}:")
    head = f"define void @{name}(ptr %B) #0 {{\nentry:"
    return ["\n".join([*tables, head, *em.lines, "  ret void", "}"])]


def _added(em: Emitter, q: str, x: str, e: str, n: int, align: int) -> None:
    """Add a vector to memory."""
    kind = vector_type(e, n)
    before = em.t(f"load {kind}, ptr {q}, align {align}")
    total = em.binary("fadd", x, before, e, n)
    em.raw(f"  store {kind} {total}, ptr {q}, align {align}")
