"""Pooling as machine code: a few lines of an image are read once, and their windows put together.

A vector of windows begins as one long vector of each of their lines, of which every so many-th
element belongs to a point. Units are planes, images of one channel each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pullback.compiled.ir.pooling import Pool
from pullback.compiled.ir.values import BYTES, Val
from pullback.compiled.llvm.emit import Blocks, vector_type
from pullback.compiled.llvm.windows import UnitsText
from pullback.compiled.plan.plan import Plan

__all__ = ["AverageText", "MaximumText", "PutText", "SpreadText"]


class _PlanesText(UnitsText):
    """Writes a function of planes: `x` are the first operand's, `c` the result's."""

    def __init__(self, plan: Plan, name: str, v: Val, machine: Any, declared: set[str]) -> None:
        super().__init__(plan, name, v, machine, declared)
        self.x = v.ins[0]
        self.units = v.shape[0]
        self.work = max(v.size, self.x.size)
        self.pool: Pool = v.attr

    @property
    def values(self) -> dict[str, Val]:
        """The arrays, by their names in the text."""
        return {"x": self.x, "c": self.v}

    def texts(self) -> Iterator[str]:
        """The function."""
        em = Blocks()
        with em.loop(em.t("sub i64 %hi, %lo"), at_least_once=False) as number:
            unit = em.t(f"add i64 %lo, {number}")
            at = {}
            for name, v in self.values.items():
                offset = em.t(f"mul i64 {unit}, {v.size // self.units}")
                at[name] = em.at(_memory(v), f"%{name}", offset)
            self._plane(em, at)
        yield self.function(self.values, em)

    def _plane(self, em: Blocks, at: dict[str, str]) -> None:
        raise NotImplementedError

    def _pieces(self, em: Blocks, columns: int, body: Callable[[str, int], None]) -> None:
        """Run `body` for vectors of columns: where each begins, and how many are there."""
        whole = columns - columns % self.width
        if whole:
            with em.loop(whole, self.width) as start:
                body(start, self.width)
        if whole < columns:
            body(str(whole), columns - whole)

    def _lines_of_windows(self, em: Blocks, x: str, line: str, start: str, there: int) -> list[str]:
        """The points of windows in a line from a column on, a vector for each point."""
        (down, across), (step, apart) = self.pool.kernel, self.pool.stride
        width = self.x.shape[2]
        first = em.at(self.element, x, em.t(f"mul i64 {line}, {step * width}"))
        first = em.at(self.element, first, em.t(f"mul i64 {start}, {apart}"))
        long = (there - 1) * apart + across
        made = []
        for y in range(down):
            whole = self.load(em, first, y * width, long)
            for z in range(across):
                places = [z + apart * k for k in range(there)]
                made.append(_picked(em, whole, self.element, long, places))
        return made


def _memory(v: Val) -> str:
    return {"f4": "float", "f8": "double", "i8": "i64"}[v.dtype]


def _picked(em: Blocks, x: str, e: str, w: int, places: list[int]) -> str:
    """Some elements of a vector."""
    kind = vector_type(e, w)
    if w == 1:
        return em.splat(x, e, len(places))
    if len(places) == 1:
        return em.t(f"extractelement {kind} {x}, i32 {places[0]}")
    listed = ", ".join(f"i32 {place}" for place in places)
    return em.t(f"shufflevector {kind} {x}, {kind} poison, <{len(places)} x i32> <{listed}>")


class MaximumText(_PlanesText):
    """The largest of each window and, if somebody asks, its place."""

    @property
    def values(self) -> dict[str, Val]:
        """The arrays, by their names in the text."""
        beside = [one for one in self.plan.values if one.op == "beside" and one.ins[0] is self.v]
        return {**super().values, **dict(zip("p", beside, strict=False))}

    def _plane(self, em: Blocks, at: dict[str, str]) -> None:
        _, lines, columns = self.v.shape
        with em.loop(lines) as line:

            def windows(start: str, there: int) -> None:
                target = em.t(f"add i64 {em.t(f'mul i64 {line}, {columns}')}, {start}")
                points = self._lines_of_windows(em, at["x"], line, start, there)
                best, where = self._largest(em, points, there)
                self.store(em, best, at["c"], target, there)
                if "p" in at:
                    place = self._place(em, line, start, where, there)
                    q, kind = em.at("i64", at["p"], target), vector_type("i64", there)
                    em.raw(f"  store {kind} {place}, ptr {q}, align 8")

            self._pieces(em, columns, windows)

    def _largest(self, em: Blocks, points: list[str], there: int) -> tuple[str, str]:
        """The first of the largest, or the last NaN; and how far it is from the window's start."""
        e, across, width = self.element, self.pool.kernel[1], self.x.shape[2]
        best, where = points[0], em.number(0, "i32", there)
        for number, point in enumerate(points[1:], 1):
            y, z = divmod(number, across)
            larger = em.compare("ogt", point, best, e, there)
            missing = em.compare("uno", point, point, e, there)
            takes = em.binary("or", larger, missing, "i1", there)
            best = em.select(takes, point, best, e, there)
            where = em.select(takes, em.number(y * width + z, "i32", there), where, "i32", there)
        return best, where

    def _place(self, em: Blocks, line: str, start: str, where: str, there: int) -> str:
        step, apart = self.pool.stride
        kind = vector_type("i64", there)
        first = em.t(f"mul i64 {line}, {step * self.x.shape[2]}")
        first = em.t(f"add i64 {first}, {em.t(f'mul i64 {start}, {apart}')}")
        moves = [f"i64 {k * apart}" for k in range(there)]
        begin = em.splat(first, "i64", there)
        if there > 1:
            begin = em.t(f"add {kind} {begin}, <{', '.join(moves)}>")
        far = em.t(f"sext {vector_type('i32', there)} {where} to {kind}")
        return em.t(f"add {kind} {begin}, {far}")


class AverageText(_PlanesText):
    """The sum of each window over the divisor: along lines first, as NumPy's way adds them up."""

    def _plane(self, em: Blocks, at: dict[str, str]) -> None:
        e, (down, across) = self.element, self.pool.kernel
        _, lines, columns = self.v.shape
        with em.loop(lines) as line:

            def windows(start: str, there: int) -> None:
                points = self._lines_of_windows(em, at["x"], line, start, there)
                sums = []
                for z in range(across):
                    total = points[z]
                    for y in range(1, down):
                        total = em.binary("fadd", total, points[y * across + z], e, there)
                    sums.append(total)
                total = sums[0]
                for one in sums[1:]:
                    total = em.binary("fadd", total, one, e, there)
                made = em.div(total, em.number(self.pool.divisor, e, there), e, there)
                target = em.t(f"add i64 {em.t(f'mul i64 {line}, {columns}')}, {start}")
                self.store(em, made, at["c"], target, there)

            self._pieces(em, columns, windows)


class SpreadText(_PlanesText):
    """The adjoint of averages: each window's share at all of its points; zeros where none is."""

    def _plane(self, em: Blocks, at: dict[str, str]) -> None:
        e, (down, across) = self.element, self.pool.kernel
        _, height, width = self.v.shape
        _, lines, columns = self.x.shape
        with em.loop(lines) as line:
            source = em.at(e, at["x"], em.t(f"mul i64 {line}, {columns}"))
            target = em.at(e, at["c"], em.t(f"mul i64 {line}, {down * width}"))

            def windows(start: str, there: int) -> None:
                g = self.load(em, source, start, there)
                share = em.div(g, em.number(self.pool.divisor, e, there), e, there)
                places = [k for k in range(there) for _ in range(across)]
                spread = _picked(em, share, e, there, places)
                first = em.at(e, target, em.t(f"mul i64 {start}, {across}"))
                for y in range(down):
                    self.store(em, spread, first, y * width, there * across)

            self._pieces(em, columns, windows)
            for y in range(down):
                self._clear(em, target, y * width + columns * across, width - columns * across)
        self._clear(em, at["c"], lines * down * width, (height - lines * down) * width)

    def _clear(self, em: Blocks, p: str, first: int, count: int) -> None:
        if count:
            at, size = em.at(self.element, p, first), count * self.size
            em.raw(f"  call void @llvm.memset.p0.i64(ptr {at}, i8 0, i64 {size}, i1 0)")


class PutText(_PlanesText):
    """Zeros, to which elements are added at their places, one after the other.

    A place outside, which only somebody who replaces what was saved can give, is passed over.
    """

    @property
    def values(self) -> dict[str, Val]:
        """The arrays, by their names in the text."""
        return {**super().values, "p": self.v.ins[1]}

    def _plane(self, em: Blocks, at: dict[str, str]) -> None:
        e, length = self.element, self.v.shape[1]
        size = length * BYTES[self.v.dtype]
        em.raw(f"  call void @llvm.memset.p0.i64(ptr {at['c']}, i8 0, i64 {size}, i1 0)")
        with em.loop(self.x.shape[1]) as number:
            place = em.t(f"load i64, ptr {em.at('i64', at['p'], number)}")
            with em.only_if(em.t(f"icmp ult i64 {place}, {length}")):
                before = self.load(em, at["c"], place, 1)
                g = self.load(em, at["x"], number, 1)
                total = em.t(f"fadd {e} {before}, {g}")
                self.store(em, total, at["c"], place, 1)
