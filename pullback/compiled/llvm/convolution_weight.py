"""Gradients of filters as machine code: gradients times windows, summed over all places.

A tile is a few filters by a few points of theirs, each a vector of sums in a register: places are
added up side by side, and the elements of the vectors in the end. The windows of the tile's points
are copied without gaps, for so many images at a time as stay in the first cache; gradients are read
where they lie.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.compiled.ir.values import Val
from pullback.compiled.ir.windows import POINTS, blocks_at_once, lines_at_once
from pullback.compiled.llvm.emit import Blocks, vector_type
from pullback.compiled.llvm.windows import WindowsText
from pullback.compiled.plan.plan import Plan

__all__ = ["WeightText"]

_UNROLLED = 4  # vectors


class WeightText(WindowsText):
    """Writes the function of the sums; its units are tiles' points, for all filters."""

    def __init__(self, plan: Plan, name: str, v: Val, machine: Any, declared: set[str]) -> None:
        super().__init__(plan, name, v, machine, declared)
        self.filters = v.shape[0]
        self.points = -(-self.terms // -(-self.terms // POINTS))
        self.units = -(-self.terms // self.points)
        self.rows = min(self.registers // self.points, self.filters)
        self.work = v.ins[2].size * self.terms
        # A block is an image or some lines of it; so many are copied at once.
        self.lines = lines_at_once(self.windows, self.size)
        self.at_once = blocks_at_once(self.windows, self.images, self.size)
        self.parts = self.windows.lines // self.lines
        self.block = self.lines * self.windows.columns
        self.wide = -(-self.block // self.width) * self.width
        self.span = self.at_once * self.wide + self.width

    def texts(self) -> Iterator[str]:
        """The function, and all that it calls."""
        yield self.table_text()
        yield self.pad_text()
        yield self._copy_text()
        for points in {self.points, self.terms % self.points} - {0}:
            yield from self._rows_texts(points)
        em = Blocks()
        em.raw(f"  %panel = alloca [{self.points * self.span} x {self.element}], align 64")
        self.clear(em)
        if self.parts == 1:
            with em.loop(self.images, self.at_once) as image:
                count = self._at_most(em, self.images, image)
                self.pad(em, image, count)
                self._units(em, image, "0", count)
        else:
            with em.loop(self.images) as image:
                self.pad(em, image, "1")
                first = em.t(f"mul i64 {image}, {self.parts}")
                with em.loop(self.parts, self.at_once) as part:
                    block = em.t(f"add i64 {first}, {part}")
                    self._units(em, block, part, self._at_most(em, self.parts, part))
        yield self.whole("g", em)

    def _at_most(self, em: Blocks, all_of_them: int, done: str) -> str:
        left = em.t(f"sub i64 {all_of_them}, {done}")
        return em.intrinsic("smin", (left, str(self.at_once)), "i64", 1)

    def _units(self, em: Blocks, block: str, inside: str, count: str) -> None:
        """All units, for blocks from one on, which is the room's `inside`."""
        with em.loop(em.t("sub i64 %hi, %lo"), at_least_once=False) as number:
            self._call(em, em.t(f"add i64 %lo, {number}"), block, inside, count)

    def _call(self, em: Blocks, unit: str, block: str, inside: str, count: str) -> None:
        """Copy the windows of a unit's points, then go through the filters."""
        first = em.t(f"mul i64 {unit}, {self.points}")
        function, points = f"@{self.name}_rows{self.points}", str(self.points)
        rest = self.terms % self.points
        if rest:
            is_last = em.t(f"icmp eq i64 {unit}, {self.units - 1}")
            other = f"@{self.name}_rows{rest}"
            function = em.t(f"select i1 {is_last}, ptr {other}, ptr {function}")
            points = em.t(f"select i1 {is_last}, i64 {rest}, i64 {points}")
        table = em.at("i64", self.table, first)
        given = f"ptr %room, ptr %panel, ptr {table}, i64 {points}, i64 {inside}, i64 {count}"
        em.raw(f"  call void @{self.name}_copy({given})")
        c = em.at(self.element, "%c", first)
        em.raw(f"  call void {function}(ptr %g, ptr %panel, ptr {c}, i64 {block}, i64 {count})")

    def _copy_text(self) -> str:
        """The windows of some points without gaps, with zeros behind each block."""
        em, e, w = Blocks(), self.element, self.windows
        step = w.image if self.parts == 1 else self.lines * w.line
        together = min(max(_UNROLLED * self.width // w.columns, 1), self.lines)
        whole = self.lines - self.lines % together

        def move(source: str, target: str, first: str, lines: int) -> None:
            source = em.at(e, source, em.t(f"mul i64 {first}, {w.line}"))
            target = em.at(e, target, em.t(f"mul i64 {first}, {w.columns}"))
            self.move(em, source, target, lines, w.columns)

        with em.loop("%points") as point, em.loop("%count") as number:
            shift = em.t(f"load i64, ptr {em.at('i64', '%table', point)}")
            block = em.t(f"add i64 %block, {number}")
            source = em.at(e, em.at(e, "%x", shift), em.t(f"mul i64 {block}, {step}"))
            target = em.at(e, "%panel", em.t(f"mul i64 {point}, {self.span}"))
            target = em.at(e, target, em.t(f"mul i64 {number}, {self.wide}"))
            with em.loop(whole, together) as first:
                move(source, target, first, together)
            if whole < self.lines:
                move(source, target, str(whole), self.lines - whole)
            if self.block < self.wide:
                self.store(em, "zeroinitializer", target, self.block, self.width)
        given = "ptr %x, ptr %panel, ptr %table, i64 %points, i64 %block, i64 %count"
        return self.inner(f"{self.name}_copy", given, em)

    def _rows_texts(self, points: int) -> Iterator[str]:
        """All filters, a tile at a time."""
        name, em, e = f"{self.name}_rows{points}", Blocks(), self.element
        left = self.filters % self.rows

        def call(row: str, kind: str) -> None:
            g = em.at(e, "%g", em.t(f"mul i64 {row}, {self.places}"))
            c = em.at(e, "%c", em.t(f"mul i64 {row}, {self.terms}"))
            em.raw(f"  call fastcc void @{name}_{kind}"
                   f"(ptr {g}, ptr %panel, ptr {c}, i64 %block, i64 %count)")  # fmt: skip

        yield self._tile_text(f"{name}_tile", self.rows, points)
        with em.loop(self.filters - self.rows + 1, self.rows) as row:
            call(row, "tile")
        if left:
            yield self._tile_text(f"{name}_rest", left, points)
            call(str(self.filters - left), "rest")
        yield self.inner(name, "ptr %g, ptr %panel, ptr %c, i64 %block, i64 %count", em)

    def _tile_text(self, name: str, rows: int, points: int) -> str:
        """The inner loops, along the places of some blocks."""
        em, e, w = Blocks(), self.element, self.width
        kind, whole = vector_type(e, w), self.block - self.block % w
        zeros = [(kind, "zeroinitializer")] * (rows * points)
        with em.carrying("%count", zeros) as (number, sums, totals):
            block = em.t(f"add i64 %block, {number}")
            g = em.at(e, "%g", self._gradients(em, block))
            x = em.at(e, "%panel", em.t(f"mul i64 {number}, {self.wide}"))
            if whole:
                with em.carrying(whole, [(kind, one) for one in sums], w) as (at, before, made):
                    made += self._step(em, g, x, at, before, rows, w)
                sums = made
            if whole < self.block:
                sums = self._step(em, g, x, str(whole), sums, rows, self.block - whole)
            totals += sums
        em.raw("  %starts = icmp eq i64 %block, 0")
        for row in range(rows):
            of_row = totals[row * points : (row + 1) * points]
            for first in range(0, points, w):
                self._add(em, row * self.terms + first, of_row[first : first + w])
        given = "ptr %g, ptr %panel, ptr %c, i64 %block, i64 %count"
        return self.inner(name, given, em, "fastcc ")

    def _gradients(self, em: Blocks, block: str) -> str:
        """Where those of a block begin."""
        image, part = block, "0"
        if self.parts > 1:
            image = em.t(f"udiv i64 {block}, {self.parts}")
            part = em.t(f"mul i64 {em.t(f'urem i64 {block}, {self.parts}')}, {self.block}")
        return em.t(f"add i64 {em.t(f'mul i64 {image}, {self.filters * self.places}')}, {part}")

    def _step(
        self, em: Blocks, g: str, x: str, at: str, sums: list[str], rows: int, there: int
    ) -> list[str]:
        """A vector of places, of which so many are there, on top of the sums."""
        e, w, made = self.element, self.width, []
        x, g = em.at(e, x, at), em.at(e, g, at)
        points = len(sums) // rows
        windows = [self.load(em, x, number * self.span, w) for number in range(points)]
        for row in range(rows):
            vector = self.load(em, g, row * self.places, there)
            if there < w:
                vector = self._widened(em, vector, there)
            for number, window in enumerate(windows):
                made.append(em.fma(vector, window, sums[row * points + number], e, w))
        return made

    def _widened(self, em: Blocks, x: str, there: int) -> str:
        """With zeros behind it."""
        e, w = self.element, self.width
        if there == 1:
            return em.t(f"insertelement {vector_type(e, w)} zeroinitializer, {e} {x}, i32 0")
        places = ", ".join(f"i32 {min(k, there)}" for k in range(w))
        kind = vector_type(e, there)
        return em.t(f"shufflevector {kind} {x}, {kind} zeroinitializer, <{w} x i32> <{places}>")

    def _add(self, em: Blocks, place: int, sums: list[str]) -> None:
        """Points of a filter, to what earlier blocks gave."""
        e, points = self.element, len(sums)
        many = 1 << (points - 1).bit_length()
        total = em.sums(sums + ["zeroinitializer"] * (many - points), e, self.width)
        total = em.first(total, e, many, points)
        added = em.binary("fadd", self.load(em, "%c", place, points), total, e, points)
        kind = vector_type(e, points)
        made = em.t(f"select i1 %starts, {kind} {total}, {kind} {added}")
        self.store(em, made, "%c", place, points)
