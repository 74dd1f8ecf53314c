"""Elements where indices say, as LLVM: the check of an index, and a function for `place`."""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.ir.values import Val
from pullback.compiled.llvm.alike import Shared
from pullback.compiled.llvm.emit import ELEMENTS, Blocks, Emitter, vector_type
from pullback.compiled.llvm.moves import copy_text
from pullback.compiled.plan.plan import Plan

__all__ = ["offset_of", "place_texts"]


def offset_of(em: Emitter, found: list[str], indices: Any, axes: Any, w: int) -> tuple[str, str]:
    """The sum of indices times strides, in `w` elements at once, and whether all name something.

    Those that do not count as 0.
    """
    total, fine = "", ""
    for name, one, (n, stride, wraps) in zip(found, indices, axes, strict=True):
        if one.dtype != "i8":
            kinds = vector_type(ELEMENTS[one.dtype], w), vector_type("i64", w)
            name = em.t(f"sext {kinds[0]} {name} to {kinds[1]}")
        size, zero = em.splat(f"{n}", "i64", w), em.number(0, "i64", w)
        if wraps:
            negative = em.compare("slt", name, zero, "i64", w)
            name = em.select(negative, em.binary("add", name, size, "i64", w), name, "i64", w)
        inside = em.compare("ult", name, size, "i64", w)
        name = em.select(inside, name, zero, "i64", w)
        part = em.binary("mul", name, em.splat(f"{stride}", "i64", w), "i64", w)
        total = em.binary("add", total, part, "i64", w) if total else part
        fine = em.binary("and", fine, inside, "i1", w) if fine else inside
    if w > 1:
        bits = em.t(f"bitcast {vector_type('i1', w)} {fine} to i{w}")
        fine = em.t(f"icmp eq i{w} {bits}, -1")
    return total, fine


def say_fault(em: Emitter, fine: str, fault: str, elsewhere: str) -> None:
    """Set the word of the fault unless all is fine; without a branch, so that loops stay loops."""
    at = em.t(f"select i1 {fine}, ptr {elsewhere}, ptr {fault}")
    em.raw(f"  store i64 1, ptr {at}")


def place_texts(plan: Plan, name: str, v: Val) -> list[Shared | str]:
    """What is there before, and the elements written one after the other."""
    strides, axes, adds, shape = v.attr
    part, indices, whole = v.ins[0], v.ins[1 : 1 + len(axes)], v.ins[1 + len(axes) :]
    texts: list[Shared | str] = []
    if whole:
        texts.append(copy_text(plan, v, whole[0], 0, v.strides))
    text = _Placing(plan, v, shape, strides, adds=adds)
    texts.append(text.text(name, part, indices, axes, clears=not whole))
    return texts


class _Placing:
    """Writes the loop over the elements of a part."""

    def __init__(self, plan: Plan, v: Val, shape: Any, strides: Any, *, adds: bool) -> None:
        self.plan, self.v, self.adds = plan, v, adds
        self.shape, self.strides = shape, strides
        self.em = Blocks()

    def text(self, name: str, part: Val, indices: Any, axes: Any, *, clears: bool) -> str:
        em, v = self.em, self.v
        target, source = self._base(v), self._base(part)
        assert self.plan.fault is not None
        fault = em.t(f"getelementptr ptr, ptr %B, i64 {self.plan.fault}")
        fault = em.t(f"load ptr, ptr {fault}")
        elsewhere = em.t("alloca i64")
        bases = [self._base(one) for one in indices]
        if clears:
            size = v.size * v.itemsize
            em.raw(f"  call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")
        rank = len(self.shape)
        operands = [part, *indices]
        steps = [_aligned(one, rank) for one in operands]
        moves = [*steps, list(self.strides)]
        # Behind the last dimension that an index varies in, elements lie in rows.
        rows = max([d + 1 for d in range(rank) if any(one[d] != 0 for one in steps[1:])], default=0)
        count = math.prod(self.shape[:rows])
        with em.loop(count) as number:
            at = [self._sum(number, rows, one) for one in moves]
            found = []
            for one, base, place in zip(indices, bases, at[1:-1], strict=True):
                e = ELEMENTS[one.dtype]
                place = em.t(f"add i64 {place}, {one.off}")
                p = em.t(f"getelementptr {e}, ptr {base}, i64 {place}")
                found.append(em.t(f"load {e}, ptr {p}"))
            offset, fine = offset_of(em, found, indices, axes, 1)
            say_fault(em, fine, fault, elsewhere)
            to = em.t(f"add i64 {at[-1]}, {offset}")
            start = em.t(f"add i64 {at[0]}, {part.off}")
            self._row(target, source, to, start, (rows, steps[0]))
        head = f"define void @{name}(ptr %B) #0 {{\nentry:"
        return "\n".join([head, *em.lines, "  ret void", "}"])

    def _base(self, one: Val) -> str:
        at = self.em.t(f"getelementptr ptr, ptr %B, i64 {self.plan.slot[one.base.id]}")
        return self.em.t(f"load ptr, ptr {at}")

    def _sum(self, number: str, rank: int, strides: Any, first: int = 0) -> str:
        """The offset of an element, by its number over the dimensions from `first` to `rank`."""
        em, total, step = self.em, "0", 1
        for d in reversed(range(first, rank)):
            n, stride = self.shape[d], strides[d]
            if stride != 0 and n != 1:
                place = number if step == 1 else em.t(f"udiv i64 {number}, {step}")
                if d > first:
                    place = em.t(f"urem i64 {place}, {n}")
                place = em.t(f"mul i64 {place}, {stride}")
                total = place if total == "0" else em.t(f"add i64 {total}, {place}")
            step = step * n
        return total

    def _row(self, target: str, source: str, to: str, start: str, row: Any) -> None:
        """The elements that one index names."""
        rows, steps = row
        em, rank = self.em, len(self.shape)
        q = em.t(f"getelementptr {self._kind}, ptr {target}, i64 {to}")
        p = em.t(f"getelementptr {self._kind}, ptr {source}, i64 {start}")
        count = math.prod(self.shape[rows:])
        if rows == rank:
            self._move(p, q, 1)
            return
        dense = _is_dense(self.shape[rows:], self.strides[rows:])
        dense = dense and _is_dense(self.shape[rows:], steps[rows:])
        width = 64 // self.v.itemsize if dense else 1
        whole = count - count % width
        if width > 1 and whole > 0:
            with em.loop(whole, width) as number:
                self._move(em.at(self._kind, p, number), em.at(self._kind, q, number), width)
        if width > 1 and count == whole:
            return
        first = whole if width > 1 else 0
        with em.loop(count - first) as number:
            number = em.t(f"add i64 {number}, {first}")
            one = self._sum(number, rank, steps, rows)
            other = self._sum(number, rank, self.strides, rows)
            self._move(em.at(self._kind, p, one), em.at(self._kind, q, other), 1)

    @property
    def _kind(self) -> str:
        return "i8" if self.v.dtype == "b1" else ELEMENTS[self.v.dtype]

    def _move(self, p: str, q: str, w: int) -> None:
        em, kind, size = self.em, vector_type(self._kind, w), self.v.itemsize
        x = em.t(f"load {kind}, ptr {p}, align {size}")
        if self.adds:
            before = em.t(f"load {kind}, ptr {q}, align {size}")
            x = em.combine("sum", before, x, self._kind, w)
        em.raw(f"  store {kind} {x}, ptr {q}, align {size}")


def _aligned(one: Val, rank: int) -> list[Any]:
    """Strides over the dimensions of a domain; 0 where a value is repeated."""
    pairs = zip(one.shape, one.strides, strict=True)
    return [0] * (rank - len(one.shape)) + [0 if n == 1 else s for n, s in pairs]


def _is_dense(shape: Any, strides: Any) -> bool:
    step = 1
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and s != step:
            return False
        step = step * n
    return True
