"""What convolutions and gradients of filters share: rows of images, and copies of windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pullback.compiled.ir.values import BYTES, Val
from pullback.compiled.ir.windows import Windows
from pullback.compiled.llvm.emit import ELEMENTS, Blocks, vector_type
from pullback.compiled.plan.plan import Plan

__all__ = ["RowText", "WindowsText"]


class _Text:
    """Writes the function of a value, which does any range of its units at a time."""

    units: int  # in how many parts it can be done
    work: int  # about how many operations it takes

    def __init__(self, plan: Plan, name: str, v: Val, machine: Any, declared: set[str]) -> None:
        self.plan, self.name, self.v, self.declared = plan, name, v, declared
        self.size, self.element = BYTES[v.dtype], ELEMENTS[v.dtype]
        self.width: int = machine.vector_bytes // self.size

    def function(self, values: dict[str, Val], body: Blocks) -> str:
        """The function; letters are where values begin."""
        head = f"define void @{self.name}(ptr %B, ptr %S, i64 %lo, i64 %hi, i64 %tid) #0 {{"
        lines = [head, "entry:"]
        for letter, v in values.items():
            lines += [
                f"  %{letter}.s = getelementptr ptr, ptr %B, i64 {self.plan.slot[v.base.id]}",
                f"  %{letter}.b = load ptr, ptr %{letter}.s",
                f"  %{letter} = getelementptr {ELEMENTS[v.dtype]}, ptr %{letter}.b, i64 {v.off}",
            ]
        self.declared |= body.declared
        return "\n".join([*lines, *body.lines, "  ret void", "}"])

    def inner(self, name: str, given: str, body: Blocks, how: str = "") -> str:
        """A function that others of the module call."""
        self.declared |= body.declared
        head = f"define internal {how}void @{name}({given}) #0 {{"
        return "\n".join([head, "entry:", *body.lines, "  ret void", "}"])

    def load(self, em: Blocks, p: str, start: Any, w: int) -> str:
        """A vector from some place on."""
        e = self.element
        return em.t(f"load {vector_type(e, w)}, ptr {em.at(e, p, start)}, align {self.size}")

    def store(self, em: Blocks, x: str, p: str, start: Any, w: int) -> None:
        """Keep a vector."""
        e = self.element
        at = em.at(e, p, start)
        em.raw(f"  store {vector_type(e, w)} {x}, ptr {at}, align {self.size}")


class RowText(_Text):
    """Writes the function that lays images in a row, with zeros between lines and planes.

    Its units are planes. One pass: to clear the row first took 1.6 times as long.
    """

    def __init__(self, plan: Plan, name: str, v: Val, machine: Any, declared: set[str]) -> None:
        super().__init__(plan, name, v, machine, declared)
        self.x = v.ins[0]
        self.units = self.x.shape[0] * self.x.shape[1]
        self.work = v.size

    def texts(self) -> Iterator[str]:
        """The function."""
        em, e = Blocks(), self.element
        lead, plane, line = self.v.attr
        lines, columns = self.x.shape[2:]
        size = columns * self.size
        with em.only_if(em.t("icmp eq i64 %lo, 0")):
            self._clear(em, "%c", 0, lead)
        with em.loop(em.t("sub i64 %hi, %lo"), at_least_once=False) as number:
            unit = em.t(f"add i64 %lo, {number}")
            source = em.at(e, "%x", em.t(f"mul i64 {unit}, {lines * columns}"))
            target = em.at(e, em.at(e, "%c", lead), em.t(f"mul i64 {unit}, {plane}"))
            with em.loop(lines) as k:
                p = em.at(e, source, em.t(f"mul i64 {k}, {columns}"))
                q = em.at(e, target, em.t(f"mul i64 {k}, {line}"))
                em.raw(f"  call void @llvm.memcpy.p0.p0.i64(ptr {q}, ptr {p}, i64 {size}, i1 0)")
                self._clear(em, q, columns, line - columns)
            self._clear(em, target, lines * line, plane - lines * line)
        with em.only_if(em.t(f"icmp eq i64 %hi, {self.units}")):
            end = lead + self.units * plane
            self._clear(em, "%c", end, self.v.size - end)
        yield self.function({"x": self.x, "c": self.v}, em)

    def _clear(self, em: Blocks, p: str, first: int, count: int) -> None:
        if count:
            at, size = em.at(self.element, p, first), count * self.size
            em.raw(f"  call void @llvm.memset.p0.i64(ptr {at}, i8 0, i64 {size}, i1 0)")


class WindowsText(_Text):
    """Writes a function that reads windows."""

    def __init__(self, plan: Plan, name: str, v: Val, machine: Any, declared: set[str]) -> None:
        super().__init__(plan, name, v, machine, declared)
        self.windows: Windows = v.attr
        self.places = self.windows.lines * self.windows.columns
        self.terms = len(self.windows.points)
        self.registers = 24 if machine.vector_bytes == 64 else 12  # for sums
        self.table = f"@{name}_points"

    def table_text(self) -> str:
        """Where points lie, as a constant of the module."""
        listed = ", ".join(f"i64 {point}" for point in self.windows.points)
        return f"{self.table} = private constant [{self.terms} x i64] [{listed}]"

    def move(self, em: Blocks, source: str, target: str, lines: int, columns: int) -> None:
        """A point of some lines of windows, without gaps.

        Each line overwrites what was too much of the last.
        """
        w, step = self.width, self.windows.column
        for line in range(lines):
            for start in range(0, columns, w):
                there = line * self.windows.line + start * step
                x = self.load(em, source, there, w * step)
                if step > 1:
                    x = self._every(em, x, step)
                self.store(em, x, target, line * columns + start, w)

    def _every(self, em: Blocks, x: str, step: int) -> str:
        """Every `step`-th element."""
        w = self.width
        kind = vector_type(self.element, w * step)
        places = ", ".join(f"i32 {k * step}" for k in range(w))
        return em.t(f"shufflevector {kind} {x}, {kind} poison, <{w} x i32> <{places}>")
