"""What convolutions and gradients of filters share: padded images, and copies of windows."""

from __future__ import annotations

from typing import Any

from pullback.compiled.ir.values import BYTES, Val
from pullback.compiled.ir.windows import Windows
from pullback.compiled.llvm.alike import PARAMETERS
from pullback.compiled.llvm.emit import ELEMENTS, Blocks, vector_type
from pullback.compiled.plan.plan import Plan

__all__ = ["UnitsText", "WindowsText"]


class UnitsText:
    """Writes the function of a value, which does any range of its units at a time."""

    units: int  # in how many parts it can be done
    work: int  # about how many operations it takes

    def __init__(self, plan: Plan, name: str, v: Val, machine: Any, declared: set[str]) -> None:
        self.plan, self.name, self.v, self.declared = plan, name, v, declared
        self.size, self.element = BYTES[v.dtype], ELEMENTS[v.dtype]
        self.width: int = machine.vector_bytes // self.size

    def function(self, values: dict[str, Val], body: Blocks) -> str:
        """The function; names are where values begin."""
        head = f"define void @{self.name}{PARAMETERS} #0 {{"
        lines = [head, "entry:"]
        for name, v in values.items():
            lines += [
                f"  %{name}.s = getelementptr ptr, ptr %B, i64 {self.plan.slot[v.base.id]}",
                f"  %{name}.b = load ptr, ptr %{name}.s",
                f"  %{name} = getelementptr {ELEMENTS[v.dtype]}, ptr %{name}.b, i64 {v.off}",
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


class WindowsText(UnitsText):
    """Writes a function that reads windows of padded images."""

    def __init__(self, plan: Plan, name: str, v: Val, machine: Any, declared: set[str]) -> None:
        super().__init__(plan, name, v, machine, declared)
        self.registers = 24 if machine.vector_bytes == 64 else 12  # for sums
        self.room, self.x = v.ins[:2]
        self.images = self.x.shape[0]
        self.windows: Windows = v.attr
        self.places = self.windows.lines * self.windows.columns
        self.terms = len(self.windows.points)
        self.table = f"@{name}_points"

    def table_text(self) -> str:
        """Where points lie, as a constant of the module."""
        listed = ", ".join(f"i64 {point}" for point in self.windows.points)
        return f"{self.table} = private constant [{self.terms} x i64] [{listed}]"

    def clear(self, em: Blocks) -> None:
        """Find the thread's own room, and fill it with zeros."""
        em.raw(f"  %own = mul i64 %tid, {self.plan.bytes_of(self.room)}")
        em.raw("  %room = getelementptr i8, ptr %rooms, i64 %own")
        size = self.room.size * self.size
        em.raw(f"  call void @llvm.memset.p0.i64(ptr %room, i8 0, i64 {size}, i1 0)")

    def whole(self, letters: str, body: Blocks) -> str:
        """The function; operands begin at %x and these letters, the result at %c."""
        names = ["rooms", "x", *letters, "c"]
        return self.function(dict(zip(names, [*self.v.ins, self.v], strict=True)), body)

    # Copies -----------------------------------------------------------------------------------

    def pad_text(self) -> str:
        """A function that lays %count images into the room; the zeros between lines are there."""
        em, e = Blocks(), self.element
        channels, lines, columns = self.x.shape[1:]
        size = columns * self.size
        with em.loop("%count") as image, em.loop(channels) as channel, em.loop(lines) as line:
            number = em.t(f"add i64 {em.t(f'mul i64 {image}, {channels}')}, {channel}")
            number = em.t(f"add i64 {em.t(f'mul i64 {number}, {lines}')}, {line}")
            source = em.at(e, "%x", em.t(f"mul i64 {number}, {columns}"))
            target = em.at(e, "%room", self.windows.lead)
            steps = ((image, self.windows.image), (channel, self.windows.plane))
            for place, step in (*steps, (line, self.windows.row)):
                target = em.at(e, target, em.t(f"mul i64 {place}, {step}"))
            em.raw(f"  call void @llvm.memcpy.p0.p0.i64"
                   f"(ptr {target}, ptr {source}, i64 {size}, i1 0)")  # fmt: skip
        return self.inner(f"{self.name}_pad", "ptr %x, ptr %room, i64 %count", em)

    def pad(self, em: Blocks, image: str, count: str) -> None:
        """Some images, into the room."""
        x = em.at(self.element, "%x", em.t(f"mul i64 {image}, {self.x.size // self.images}"))
        em.raw(f"  call void @{self.name}_pad(ptr {x}, ptr %room, i64 {count})")

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
