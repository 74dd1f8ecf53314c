"""Matrix products: tiles written for their sizes, or calls of BLAS.

BLAS's address stands in the program's table.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.ir.symbols import moves
from pullback.compiled.ir.values import Val
from pullback.compiled.llvm.alike import PARAMETERS, Shared, Words
from pullback.compiled.llvm.emit import ELEMENTS, Emitter, literal
from pullback.compiled.llvm.tiles import Tiles, tiles_pay
from pullback.compiled.plan.plan import Plan, Update

__all__ = ["DotText"]


def _order(x: Val) -> tuple[int, int]:
    """How BLAS reads a matrix where it lies: as it is or transposed, and its leading dimension."""
    (m, n), (s, t) = x.shape[-2:], x.strides[-2:]
    if t == 1 and (s >= n or m == 1):
        return 111, max(s, n, 1)
    return 112, max(t, m, 1)


class DotText:
    """Writes the function of a product; it takes `units` of work, any range of them at a time.

    With an `update` the product is added to what is there.
    """

    def __init__(self, plan: Plan, name: str, v: Val, machine: Any, update: Update | None) -> None:
        self.plan, self.name, self.v, self.machine, self.update = plan, name, v, machine, update
        self.a, self.b = v.ins
        self.m, self.k = self.a.shape[-2:]
        self.n = self.b.shape[-1]
        self.batch, self.out_strides, self.lead = v.shape[:-2], v.strides[:-2], self.n
        if v.attr is not None:  # rows of the result lie where a larger array has them
            self.out_strides, self.lead, self.batch, self.m, self.n = v.attr
        self.out = v
        if update is not None:
            self.out, self.lead = update.value, update.value.strides[0]
        # Sizes that vary in code for several sizes are BLAS's: a tile's are fixed.
        fixed = not any(moves(n, plan.moving) for n in (self.m, self.k, self.n))
        fixed = fixed and not any(map(moves, (*_strides(self.a), *_strides(self.b), self.lead)))
        self.tiles = None
        if fixed and tiles_pay(machine, v.dtype, self.m, self.k, self.n):
            factor = None if update is None else update.factor
            self.tiles = Tiles(
                v.dtype, self.m, self.k, self.n, _strides(self.a), _strides(self.b),
                self.lead, factor, machine.vector_bytes,
            )  # fmt: skip

    @property
    def units(self) -> int:
        """In how many parts it can be done."""
        return math.prod(self.batch) * self._parts

    @property
    def _parts(self) -> int:
        return 1 if self.tiles is None else self.tiles.panels * self.tiles.blocks

    def text(self, slot: int | None, functions: dict[str, str], declared: set[str]) -> Shared:
        """The function; `slot` has BLAS's address if it is BLAS's."""
        em, words = Emitter(), Words(self.plan)
        for letter, x in (("a", self.a), ("b", self.b), ("c", self.out)):
            words.pointer(f"{letter}0", self.plan.slot[x.base.id])
        unit, matrix = "0", "%i"
        if self._parts > 1:
            unit = em.t(f"urem i64 %i, {self._parts}")
            matrix = em.t(f"udiv i64 %i, {self._parts}")
        at = self._matrices(em, words, matrix)
        if self.tiles is not None:
            self.tiles.call(em, at, unit)
            self.tiles.write(functions, declared)
        else:
            self._call_blas(em, *at)
        if slot is not None:
            words.pointer("f", slot)
        lines = [f"{PARAMETERS} #0 {{", "entry:", *words.lines,
                 "  br label %loop", "loop:", "  %i = phi i64 [ %lo, %entry ], [ %i1, %loop ]",
                 *em.lines, "  %i1 = add i64 %i, 1", "  %m = icmp slt i64 %i1, %hi",
                 "  br i1 %m, label %loop, label %end", "end:", "  ret void", "}"]  # fmt: skip
        return Shared("\n".join(lines), words.words)

    def _matrices(self, em: Emitter, words: Words, number: str) -> list[str]:
        """Where the matrices begin, of the batch's `number`."""
        e, at = ELEMENTS[self.v.dtype], []
        strides = (self.a.strides[:-2], self.b.strides[:-2], self.out_strides)
        for letter, x, steps in zip("abc", (self.a, self.b, self.v), strides, strict=True):
            offset, count = words.offset(f"{letter}1", x.off), math.prod(self.batch)
            for d, s in zip(self.batch, steps, strict=True):
                count //= d
                if s != 0 and d > 1:
                    z = em.t(f"urem i64 {em.t(f'udiv i64 {number}, {count}')}, {d}")
                    offset = em.t(f"add i64 {offset}, {em.t(f'mul i64 {z}, {s}')}")
            at.append(em.t(f"getelementptr {e}, ptr %{letter}0, i64 {offset}"))
        return at

    def _call_blas(self, em: Emitter, a: str, b: str, c: str) -> None:
        e, i = ELEMENTS[self.v.dtype], self.machine.blas(self.v.dtype).whole
        (order_a, lead_a), (order_b, lead_b) = _order(self.a), _order(self.b)
        one, zero = literal(1, e), literal(0, e)
        if self.update is not None:
            one, zero = literal(self.update.factor, e), one
        em.raw(
            f"  call void %f(i32 101, i32 {order_a}, i32 {order_b}, {i} {self.m}, {i} {self.n}, "
            f"{i} {self.k}, {e} {one}, ptr {a}, {i} {lead_a}, ptr {b}, {i} {lead_b}, {e} {zero}, "
            f"ptr {c}, {i} {self.lead})"
        )


def _strides(x: Val) -> tuple[int, int]:
    """From a row to the next, and from a column; along a single one, as if it were dense."""
    (m, n), (s, t) = x.shape[-2:], x.strides[-2:]
    return (s if m > 1 else n), (t if n > 1 else 1)
