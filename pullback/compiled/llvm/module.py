"""The whole program as one LLVM module: a function for each native part between eager kernels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from pullback.compiled.ir.indexed import INDEXED
from pullback.compiled.ir.values import Val
from pullback.compiled.llvm.alike import Shared, Step, rolled
from pullback.compiled.llvm.convolution import ConvolutionText
from pullback.compiled.llvm.convolution_weight import WeightText
from pullback.compiled.llvm.emit import ELEMENTS, Blocks, Emitter, literal, vector_type
from pullback.compiled.llvm.group import GroupText, number_of
from pullback.compiled.llvm.indexed import place_texts
from pullback.compiled.llvm.moves import cat_texts, pad_texts, padsum_texts, put_texts
from pullback.compiled.llvm.pooling import AverageText, MaximumText, PutText, SpreadText
from pullback.compiled.llvm.products import DotText
from pullback.compiled.llvm.scans import scan_texts
from pullback.compiled.plan.likeness import likeness
from pullback.compiled.plan.plan import Group, Plan, Update

__all__ = ["ModuleText"]

_UNITS: dict[str, Any] = {
    "avgpool": AverageText, "avgspread": SpreadText, "conv": ConvolutionText,
    "convsum": WeightText, "maxpool": MaximumText, "putplaces": PutText,
}  # fmt: skip
_TEXTS: dict[str, Any] = {
    "cat": cat_texts, "pad": pad_texts, "padsum": padsum_texts, "place": place_texts,
    "put": put_texts, "scan": scan_texts,
}  # fmt: skip
_MANY_CALLS = 32  # from which on they are a loop over a table
_SHARED_PRODUCT = 40_000  # products of numbers, below which threads cost more than they give


class ModuleText:
    """Text of a program, its parts (native functions and eager calls) and the addresses it needs.

    `parts` is a list of ("native", function name) and ("call", value) in order of execution.
    """

    def __init__(self, plan: Plan, machine: Any, *, apart: bool = False) -> None:
        """With `apart` each step is a part of its own, so that it can be timed."""
        self.plan, self.machine = plan, machine
        self.functions: dict[str, str] = {}
        self.texts: list[str] = []
        self.declared = {
            "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
            "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        }
        self.addresses: dict[str, int] = {}  # what a slot beyond the buffers holds -> slot
        self.parts: list[tuple[str, Any]] = []
        # By likeness: name of the function, and which operands of the key it takes, in its order.
        self.groups: dict[Any, tuple[str, list[int]]] = {}
        self.alike: dict[str, str] = {}  # body of a function that steps share -> its name
        self.tables: list[str] = []
        self._lines: list[str | Step] = []
        self._calls = 0
        self.work = 0
        for number, step in enumerate(plan.steps):
            self._step(f"g{number}", step)
            if plan.in_place and any(v.op in INDEXED for v in step.nodes):
                self._stop_at_fault(number)
            if apart:
                self._close()
        self._close()

    @property
    def slots(self) -> int:
        """How many pointers the table has."""
        return self.plan.slots + len(self.addresses)

    @property
    def text(self) -> str:
        """The module."""
        width = self.machine.vector_bytes * 8
        attributes = f'attributes #0 = {{ nounwind "prefer-vector-width"="{width}" }}'
        functions = self.functions.values()
        return "\n".join(
            ["!0 = !{}", *sorted(self.declared), *self.tables, *functions, *self.texts, attributes]
        )

    def _address(self, name: str) -> int:
        if name not in self.addresses:
            self.addresses[name] = self.plan.slots + len(self.addresses)
        return self.addresses[name]

    def _close(self) -> None:
        """End a native part, if there is one."""
        if self._lines:
            name = f"part{len(self.parts)}"
            if any(str(line).startswith("  br ") for line in self._lines):
                self._lines += ["  br label %out", "out:"]
            body = "\n".join(self._rolled())
            self.texts.append(f"define void @{name}(ptr %B) #0 {{\n{body}\n  ret void\n}}")
            self.parts.append(("native", name))
            self._lines = []

    def _rolled(self) -> Iterator[str]:
        """The lines of a part, with a loop for many calls one after the other."""
        for are_steps, lines in groupby(self._lines, lambda line: isinstance(line, Step)):
            found: list[Any] = list(lines)
            if are_steps and len(found) >= _MANY_CALLS:
                name = f"steps{len(self.texts)}"
                self.texts += rolled(name, found)
                found = [f"  call void @{name}(ptr %B)"]
            yield from map(str, found)

    def _step(self, name: str, step: Any) -> None:
        if isinstance(step, Group):
            self._group(name, step)
            return
        v = step.value
        if isinstance(step, Update):
            self._dot(name, step.product, step)
        elif v.op == "call":
            self._close()
            self.parts.append(("call", v))
        elif v.op == "dot":
            self._dot(name, v)
        elif v.op in _UNITS:
            self._units(name, v)
        elif v.op != "room":
            self.work += v.ins[1].size if v.id in self.plan.over else v.size
            for one in _TEXTS[v.op](self.plan, name, v):
                if isinstance(one, Shared):
                    function, table = self._shared(f"{name}_{len(self.tables)}", one)
                    self._run(function, 1, table, parallel=False)
                else:
                    self.texts.append(one)
                    self._lines.append(f"  call void @{name}(ptr %B)")

    def _shared(self, name: str, one: Shared) -> tuple[str, str]:
        """The name of a function that others may have written already, and the call's table."""
        known = self.alike.get(one.body)
        if known is None:
            known = self.alike[one.body] = name
            self.texts.append(f"define void @{name}{one.body}")
        return known, self._table(one.words)

    def _stop_at_fault(self, number: int) -> None:
        """Nothing is written to what the caller has once an index was none."""
        p = self._loaded(f"%f{number}", self.plan.fault or 0)
        self._lines += [
            f"  {p}.w = load i64, ptr {p}",
            f"  {p}.n = icmp eq i64 {p}.w, 0",
            f"  br i1 {p}.n, label %on{number}, label %out",
            f"on{number}:",
        ]

    def _dot(self, name: str, v: Val, update: Update | None = None) -> None:
        writer = DotText(self.plan, name, v, self.machine, update)
        slot = self._address(f"gemm {v.dtype}") if writer.tiles is None else None
        written = writer.text(slot, self.functions, self.declared)
        function, table = self._shared(name, written)
        work = v.size * v.ins[0].shape[-1]
        self.work += work
        parallel = self.plan.threads > 1 and (
            writer.units >= 8 and (writer.tiles is None or work > _SHARED_PRODUCT)
        )
        self._run(function, writer.units, table, parallel=parallel)

    def _units(self, name: str, v: Val) -> None:
        writer = _UNITS[v.op](self.plan, name, v, self.machine, self.declared)
        self.texts += writer.texts()
        self.work += writer.work
        parallel = self.plan.threads > 1 and writer.work > _SHARED_PRODUCT
        self._run(name, writer.units, "null", parallel=parallel)

    def _group(self, name: str, group: Group) -> None:
        key, begins = likeness(self.plan, group)
        known = self.groups.get(key)
        if known is None:
            writer = GroupText(self.plan, group, self.functions, self.machine)
            self.texts.append(f"define void @{name}{writer.text()}")
            self.declared |= writer.em.declared
            known = self.groups[key] = (name, [begins.index(one) for one in writer.bases])
        function, order = known
        self.work += group.work
        shared, totals = self.plan.is_shared(group), group.accumulated()
        for v in totals:
            self._clear(v, group)
        found = [begins[number] for number in order]
        table = self._table(
            [word for slot, on in found for word in ((slot, on) if on else (slot,))]
        )
        self._run(function, group.rows, table, parallel=shared)
        for v in totals:
            if v.id not in self.plan.copies:
                continue
            blocked = v.id in self.plan.blocks
            text = self._joined_blocks(v, group) if blocked else _joined(self.plan, v)
            self.texts.append(text)
            target = self._loaded(f"%y{v.id}", self.plan.slot[v.id])
            self._lines.append(f"  call void @sum{v.id}(ptr %B, ptr %z{v.id}, ptr {target})")

    def _loaded(self, name: str, slot: int) -> str:
        """The pointer of a slot."""
        self._lines.append(f"  {name}.a = getelementptr ptr, ptr %B, i64 {slot}")
        self._lines.append(f"  {name} = load ptr, ptr {name}.a")
        return name

    def _clear(self, v: Val, group: Group) -> None:
        """What a total starts from, in memory."""
        q = self._loaded(f"%z{v.id}", self.plan.copies.get(v.id, self.plan.slot[v.id]))
        if v.id in self.plan.blocks:
            self.texts.append(self._cleared_blocks(v, group))
            self._lines.append(f"  call void @clear{v.id}(ptr %B, ptr {q})")
            return
        copies = self.plan.count_of(v, group)
        size = (self.plan.apart(v) * copies if copies > 1 else v.size) * v.itemsize
        if v.op == "sum":
            self._lines.append(
                f"  call void @llvm.memset.p0.i64(ptr {q}, i8 0, i64 {size}, i1 false)"
            )
            return
        self.functions[f"@fill_{v.dtype}"] = _fill_text(v.dtype)
        self._lines.append(f"  call void @fill_{v.dtype}(ptr {q}, i64 {size // v.itemsize})")

    def _copies(self, v: Val, group: Group, em: Emitter) -> str:
        """How many copies of a total there are for blocks of rows, and for threads."""
        blocks = self.plan.blocks[v.id]
        number = number_of(blocks, em)
        threads = self.plan.threads if self.plan.is_shared(group) else 1
        if blocks.is_outermost:
            return em.t(f"add i64 {number}, {threads - 1}")
        return em.t(f"mul i64 {number}, {threads}")

    def _cleared_blocks(self, v: Val, group: Group) -> str:
        em = Emitter()
        count = self._copies(v, group, em)
        size = em.t(f"mul i64 {count}, {self.plan.apart(v) * v.itemsize}")
        em.raw(f"  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 {size}, i1 false)")
        head = f"define internal void @clear{v.id}(ptr %B, ptr %p) #0 {{"
        return "\n".join([head, "entry:", *em.lines, "  ret void", "}"])

    def _joined_blocks(self, v: Val, group: Group) -> str:
        """The copies of blocks of rows, added in order with what that rounds off."""
        em, e = Blocks(), ELEMENTS[v.dtype]
        width = self.machine.vector_bytes // v.itemsize
        count, apart = self._copies(v, group, em), self.plan.apart(v)

        def join(at: str, w: int) -> None:
            kind, first = vector_type(e, w), em.t(f"getelementptr {e}, ptr %p, i64 {at}")
            zero = (kind, em.number(0, e, w))
            with em.carrying(count, [zero, zero]) as (number, (total, lost), after):
                offset = em.t(f"mul i64 {number}, {apart}")
                place = em.t(f"getelementptr {e}, ptr {first}, i64 {offset}")
                x = em.t(f"load {kind}, ptr {place}, align {v.itemsize}")
                after += em.exact_sum(total, lost, x, e, w)
            made = em.with_lost(after[0], after[1], e, w)
            target = em.t(f"getelementptr {e}, ptr %d, i64 {at}")
            em.raw(f"  store {kind} {made}, ptr {target}, align {v.itemsize}")

        whole = v.size - v.size % width
        if whole != 0:
            with em.loop(whole, width) as place:
                join(place, width)
        if whole < v.size:
            with em.loop(v.size - whole) as place:
                join(em.t(f"add i64 {place}, {whole}"), 1)
        head = f"define internal void @sum{v.id}(ptr %B, ptr %p, ptr %d) #0 {{"
        return "\n".join([head, "entry:", *em.lines, "  ret void", "}"])

    def _table(self, words: list[int]) -> str:
        """What a function that is called for several steps works on in one of them."""
        listed = ", ".join(f"i64 {word}" for word in words)
        name = f"@slots{len(self.tables)}"
        self.tables.append(f"{name} = private constant [{len(words)} x i64] [{listed}]")
        return name

    def _run(self, name: str, count: int, slots: str, *, parallel: bool) -> None:
        if not (parallel and self.plan.threads > 1):
            step = Step(name, slots, count)
            # A number of rows that varies must be read in the code.
            self._lines.append(step if self.plan.is_fixed(count) else str(step))
            return
        slot = self._address(f"parallel {self.plan.threads}")
        self._calls += 1
        p = f"%par{self._calls}"
        self._lines += [
            f"  {p}.a = getelementptr ptr, ptr %B, i64 {slot}",
            f"  {p} = load ptr, ptr {p}.a",
            f"  call void {p}(ptr @{name}, ptr %B, ptr {slots}, i64 {count})",
        ]


def _fill_text(dtype: str) -> str:
    e = ELEMENTS[dtype]
    lowest = literal(float("-inf"), e) if dtype[0] == "f" else str(-(2 ** (8 * int(dtype[1]) - 1)))
    return "\n".join([
        f"define internal void @fill_{dtype}(ptr %p, i64 %n) #0 {{", "entry:", "  br label %l",
        "l:", "  %i = phi i64 [ 0, %entry ], [ %i1, %l ]",
        f"  %q = getelementptr {e}, ptr %p, i64 %i", f"  store {e} {lowest}, ptr %q",
        "  %i1 = add i64 %i, 1", "  %m = icmp slt i64 %i1, %n",
        "  br i1 %m, label %l, label %e", "e:", "  ret void", "}",
    ])  # fmt: skip


def _joined(plan: Plan, v: Val) -> str:
    """The copies of the threads, added in order, so that results do not depend on timing."""
    e = ELEMENTS[v.dtype]
    step = plan.bytes_of(v) // v.itemsize
    em = Emitter()
    total = em.t(f"load {e}, ptr %q")
    for number in range(1, plan.threads):
        at = em.t(f"getelementptr {e}, ptr %q, i64 {step * number}")
        total = em.combine(v.op, total, em.t(f"load {e}, ptr {at}"), e, 1)
    return "\n".join([
        f"define internal void @sum{v.id}(ptr %B, ptr %p, ptr %d) #0 {{", "entry:",
        "  br label %l", "l:",
        "  %i = phi i64 [ 0, %entry ], [ %i1, %l ]", f"  %q = getelementptr {e}, ptr %p, i64 %i",
        *em.lines, f"  %t = getelementptr {e}, ptr %d, i64 %i", f"  store {e} {total}, ptr %t",
        "  %i1 = add i64 %i, 1", f"  %m = icmp slt i64 %i1, {v.size}",
        "  br i1 %m, label %l, label %e", "e:", "  ret void", "}",
    ])  # fmt: skip
