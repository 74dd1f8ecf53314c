"""A group as one LLVM function: a loop over rows, within a row one loop for each stage.

Reductions along a row cut it into stages; what a later stage needs of an earlier one lies in a row
buffer on the stack (in L1), or is computed again where that is cheap. Rows of at most 32 elements
are one vector: no loop, no buffer.
"""

from __future__ import annotations

from typing import Any

from pullback.compiled.ir.symbols import Symbolic, moves
from pullback.compiled.ir.values import EW, SIZES, Val
from pullback.compiled.llvm.emit import ELEMENTS, Emitter, vector_type
from pullback.compiled.llvm.indexed import offset_of, say_fault
from pullback.compiled.llvm.vector import FUNCTIONS, OUTLINED
from pullback.compiled.llvm.words import WORDS
from pullback.compiled.plan.blocks import CHAIN, RowBlocks
from pullback.compiled.plan.plan import Group, Plan, last_only
from pullback.compiled.plan.stages import Stages, start_of

__all__ = ["GroupText", "number_of"]

_INLINED_AT_MOST = 24  # functions of a group; beyond, LLVM's time in a block grows faster than it
_SHORT_ROW = 32
_BUFFERS = 192 * 1024  # bytes of the stack


class GroupText(Stages):
    """Writes the function of one group."""

    def __init__(self, plan: Plan, group: Group, functions: dict[str, str], machine: Any) -> None:
        self.functions = functions
        self.em = Emitter()
        count = sum(v.op in FUNCTIONS for v in group.nodes)
        self.outline = count > _INLINED_AT_MOST
        self.bases: dict[tuple[int, int], str] = {}  # by slot, and bytes from there on
        self.pointers: dict[Any, str] = {}
        self.per_row: dict[int, str] = {}
        self.taken: dict[int, str] = {}  # where the row of a `take` begins that one index names
        self.machine = machine
        widest = max([v.itemsize for v in group.nodes if v.dtype[0] == "f"], default=4)
        native = machine.vector_bytes // widest
        self.width = native * machine.unroll
        # Rows of another length, by the same code.
        self.is_moving = moves(group.columns, plan.moving)
        is_short = not self.is_moving and group.columns <= max(self.width, _SHORT_ROW)
        is_shared = self.is_moving and not isinstance(group.columns, Symbolic)
        super().__init__(plan, group, 0 if is_shared else _BUFFERS, is_short=is_short)

    # Operands ---------------------------------------------------------------------------------

    def _row_offset(self, strides: tuple[int, ...]) -> str:
        em, total = self.em, None
        for step, n, s in self.places(strides):
            place = "%r" if step == 1 else em.t(f"udiv i64 %r, {step}")
            if n != 0:
                place = em.t(f"urem i64 {place}, {n}")
            part = place if s == 1 else em.t(f"mul i64 {place}, {s}")
            total = part if total is None else em.t(f"add i64 {total}, {part}")
        return total or "0"

    def _pointer(
        self, slot: int, off: int, strides: tuple[int, ...], dtype: str, extra: str = "0"
    ) -> str:
        """Where the row of an operand begins."""
        key = (slot, off, strides, dtype, extra)
        known = self.pointers.get(key)
        if known is not None:
            return known
        em = self.em
        total, bytes_on = self._row_offset(strides), 0
        if self.plan.is_fixed(off):
            bytes_on, off = off * SIZES[dtype], 0
        if off != 0:
            total = str(off) if total == "0" else em.t(f"add i64 {total}, {off}")
        if extra != "0":
            total = extra if total == "0" else em.t(f"add i64 {total}, {extra}")
        made = base = self.bases.setdefault((slot, bytes_on), f"%b{len(self.bases)}")
        if total != "0":
            made = em.t(f"getelementptr {_in_memory(dtype)}, ptr {base}, i64 {total}")
        self.pointers[key] = made
        return made

    def _buffer(self, v: Val) -> str:
        return f"%s{self.buffers[v.id]}"

    def _own_pointer(self, v: Val) -> str:
        return self._pointer(self.plan.slot[v.id], 0, self.layout(v)[0], v.dtype)

    def _load(self, p: str, c: str, step: int, dtype: str, w: int) -> str:
        """`w` elements from column `c` on."""
        em, e = self.em, _in_memory(dtype)
        at = p
        if step != 0 and c != "0":
            place = (
                c
                if step == 1
                else (str(int(c) * step) if c.isdigit() else em.t(f"mul i64 {c}, {step}"))
            )
            at = em.t(f"getelementptr {e}, ptr {p}, i64 {place}")
        if step == 0 or w == 1:
            x = em.t(f"load {e}, ptr {at}")
            if dtype == "b1":
                x = em.t(f"icmp ne i8 {x}, 0")
            return em.splat(x, ELEMENTS[dtype], w)
        size = SIZES[dtype]
        if step == 1:
            x = em.t(f"load {vector_type(e, w)}, ptr {at}, align {size}")
        else:
            x = "poison"
            for k in range(w):
                one = at if k == 0 else em.t(f"getelementptr {e}, ptr {at}, i64 {k * step}")
                one = em.t(f"load {e}, ptr {one}")
                x = em.t(f"insertelement {vector_type(e, w)} {x}, {e} {one}, i32 {k}")
        if dtype == "b1":
            x = em.t(f"icmp ne {vector_type('i8', w)} {x}, zeroinitializer")
        return x

    def _store(self, x: str, p: str, c: str, dtype: str, w: int) -> None:
        em, e = self.em, ELEMENTS[dtype]
        if dtype == "b1":
            x = em.t(f"zext {vector_type('i1', w)} {x} to {vector_type('i8', w)}")
            e = "i8"
        at = p if c == "0" else em.t(f"getelementptr {e}, ptr {p}, i64 {c}")
        size = SIZES[dtype]
        em.raw(f"  store {vector_type(e, w)} {x}, ptr {at}, align {size}")

    def _operand(self, one: Val, at: Columns) -> str:
        """An operand at the columns of `at`."""
        one = self.plan.builder.strip(one)
        if one.op == "const":
            return self.em.number(one.attr[0], ELEMENTS[one.dtype], at.width)
        known = at.known.get(one.id)
        if known is None:
            known = at.known[one.id] = self._fetched(one, at)
        return known

    def _fetched(self, one: Val, at: Columns) -> str:
        em, w = self.em, at.width
        if one.op == "iota":
            if w == 1:
                return at.first if not at.first.isdigit() else em.t(f"add i64 {at.first}, 0")
            steps = "<" + ", ".join(f"i64 {k}" for k in range(w)) + ">"
            start = em.t(f"add i64 {at.first}, 0")
            return em.binary("add", em.splat(start, "i64", w), steps, "i64", w)
        if self.group.is_local(one):
            if one.id in self.per_row:
                return em.splat(self.per_row[one.id], ELEMENTS[one.dtype], w)
            if one.id in self.buffers:
                return self._load(self._buffer(one), at.first, 1, one.dtype, w)
            return self._load(self._own_pointer(one), at.first, 1, one.dtype, w)
        rows, step = self.layout(one)
        p = self._pointer(self.plan.slot[one.base.id], one.off, rows, one.dtype)
        return self._load(p, at.first, step, one.dtype, w)

    def _compute(self, v: Val, at: Columns) -> str:
        if v.op == "take":
            return self._take(v, at)
        operands = [self._operand(one, at) for one in v.ins]
        w = at.width
        if v.op in OUTLINED or (v.op in FUNCTIONS and self.outline):
            return self._called(v.op, operands, ELEMENTS[v.dtype], w)
        if v.op in FUNCTIONS:
            return FUNCTIONS[v.op](self.em, operands[0], ELEMENTS[v.dtype], w)
        return WORDS[v.op](self.em, v, operands, w)

    def _take(self, v: Val, at: Columns) -> str:
        """Elements where indices say: a row from one place, or each from its own."""
        em, w = self.em, at.width
        _, step = self.aligned(v.shape, v.attr[0])
        if self._names_rows(v):
            p = self.taken.get(v.id) or self._taken_row(v)
            return self._load(p, at.first, step, v.dtype, w)
        found = [self._operand(one, at) for one in v.ins[1:]]
        offset, fine = offset_of(em, found, v.ins[1:], v.attr[1], w)
        self._say_fault(fine)
        p, e = self._row_of_taken(v), _in_memory(v.dtype)
        if step != 0:
            p = em.at(e, p, em.t(f"mul i64 {at.first}, {step}"))
        if w == 1:
            made = em.t(f"load {e}, ptr {em.at(e, p, offset)}")
            return em.t(f"icmp ne i8 {made}, 0") if v.dtype == "b1" else made
        made, kind = "poison", vector_type(e, w)
        for k in range(w):
            place = em.t(f"extractelement {vector_type('i64', w)} {offset}, i32 {k}")
            one = em.at(e, p, place)
            if step != 0 and k:
                one = em.at(e, one, k * step)
            one = em.t(f"load {e}, ptr {one}")
            made = em.t(f"insertelement {kind} {made}, {e} {one}, i32 {k}")
        if v.dtype == "b1":
            made = em.t(f"icmp ne {kind} {made}, zeroinitializer")
        return made

    def _names_rows(self, v: Val) -> bool:
        """Whether the indices of a `take` stand still along a row."""
        for one in map(self.plan.builder.strip, v.ins[1:]):
            if one.op == "iota" or (self.group.is_local(one) and one.id not in self.per_row):
                return False
            if one.op != "const" and not self.group.is_local(one) and self.layout(one)[1] != 0:
                return False
        return True

    def _taken_row(self, v: Val) -> str:
        """Where the row begins that indices name which stand still."""
        at = Columns("0", 1, dict(self.per_row))
        found = [self._operand(one, at) for one in v.ins[1:]]
        offset, fine = offset_of(self.em, found, v.ins[1:], v.attr[1], 1)
        self._say_fault(fine)
        return self.em.at(_in_memory(v.dtype), self._row_of_taken(v), offset)

    def _row_of_taken(self, v: Val) -> str:
        x = self.plan.builder.strip(v.ins[0])
        rows, _ = self.aligned(v.shape, v.attr[0])
        return self._pointer(self.plan.slot[x.base.id], v.ins[0].off, rows, v.dtype)

    def _say_fault(self, fine: str) -> None:
        assert self.plan.fault is not None
        fault = self.bases.setdefault((self.plan.fault, 0), f"%b{len(self.bases)}")
        say_fault(self.em, fine, fault, "%elsewhere")

    def _called(self, op: str, operands: list[str], e: str, w: int) -> str:
        """A function of its own, shared by all groups of the program."""
        name, kind = f"@m_{op}_{e}_{w}", vector_type(e, w)
        if name not in self.functions:
            inner = Emitter()
            if op in OUTLINED:
                lines = OUTLINED[op](inner, e, w)
            else:
                made = FUNCTIONS[op](inner, "%x", e, w)
                lines = [*inner.lines, f"  ret {kind} {made}"]
            taken = ", ".join(f"{kind} %{letter}" for letter in "xy"[: len(operands)])
            head = f"define internal fastcc {kind} {name}({taken}) noinline #0 {{"
            self.functions[name] = "\n".join([head, *lines, "}"])
            self.em.declared |= inner.declared
        given = ", ".join(f"{kind} {one}" for one in operands)
        return self.em.t(f"call fastcc {kind} {name}({given})")

    # The function -----------------------------------------------------------------------------

    def text(self) -> str:
        """The function's text after its name; equal for groups whose operands lie elsewhere."""
        em, group = self.em, self.group
        loops = group.rows > 1
        em.raw("  br label %rows")
        em.raw("rows:")
        em.raw("  %r = phi i64 [ %lo, %entry ], [ %r.next, %rows.end ]" if loops
               else "  %r = add i64 0, 0")  # fmt: skip
        self._begin_pointers()
        shared: dict[int, str] = {}
        for t in range(self.stages):
            self._per_row(t)
            self._stage(t, shared)
        for t in range(self.stages, max(self.stage.values(), default=0) + 1):
            self._per_row(t)
        if loops:
            em.raw("  br label %rows.end")
            em.raw("rows.end:")
            em.raw("  %r.next = add i64 %r, 1")
            em.raw("  %r.more = icmp slt i64 %r.next, %hi")
            em.raw("  br i1 %r.more, label %rows, label %done")
            em.raw("done:")
        em.raw("  ret void")
        return "\n".join([*self._head(), *em.lines, "}"])

    def _head(self) -> list[str]:
        head = ["(ptr noalias %B, ptr %S, i64 %lo, i64 %hi, i64 %tid) #0 {", "entry:"]
        count = 0
        for (_, bytes_on), name in self.bases.items():
            begin = f"{name}.z" if bytes_on else name
            head.append(f"  {name}.s = getelementptr i64, ptr %S, i64 {count}")
            head.append(f"  {name}.n = load i64, ptr {name}.s, !invariant.load !0")
            head.append(f"  {name}.a = getelementptr ptr, ptr %B, i64 {name}.n")
            head.append(f"  {begin} = load ptr, ptr {name}.a, !invariant.load !0")
            count += 1
            if bytes_on:
                head.append(f"  {name}.t = getelementptr i64, ptr %S, i64 {count}")
                head.append(f"  {name}.o = load i64, ptr {name}.t, !invariant.load !0")
                head.append(f"  {name} = getelementptr i8, ptr {begin}, i64 {name}.o")
                count += 1
        if any(v.op == "take" for v in self.group.nodes):
            head.append("  %elsewhere = alloca i64")
        by_id = {v.id: v for v in self.group.nodes}
        for number in self.buffers:
            e, name = _in_memory(by_id[number].dtype), self._buffer(by_id[number])
            columns = self.group.columns
            size = f"{e}, i64 {columns}" if self.is_moving else f"[{columns} x {e}]"
            head.append(f"  {name} = alloca {size}, align 64")
        return head

    def _begin_pointers(self) -> None:
        """Pointers first: they are the same in all stages."""
        for v in self.group.nodes:
            if v.op == "take":
                self._row_of_taken(v)
            for one in map(self.plan.builder.strip, v.ins[1:] if v.op == "take" else v.ins):
                if one.op not in ("const", "iota") and not self.group.is_local(one):
                    rows = self.layout(one)[0]
                    self._pointer(self.plan.slot[one.base.id], one.off, rows, one.dtype)
            if v.id in self.plan.stored and (v.op in EW or last_only(v, self.group.domain)):
                self._own_pointer(v)
        for v in self.group.accumulated():
            self._total_pointer(v)

    def _per_row(self, t: int) -> None:
        """Values of one per row that stage `t` may ask for, by scalars."""
        for v in self.group.nodes:
            if self.kind[v.id] == "row" and self.stage[v.id] == t:
                made = self._compute(v, Columns("0", 1, dict(self.per_row)))
                self.per_row[v.id] = made
                if v.id in self.plan.stored:
                    self._store(made, self._own_pointer(v), "0", v.dtype, 1)

    def _stage(self, t: int, shared: dict[int, str]) -> None:
        em, columns = self.em, self.group.columns
        roots = self.roots[t]
        if not roots:
            return
        for v in self.computed[t]:
            if v.op == "take" and v.id not in self.taken and self._names_rows(v):
                self.taken[v.id] = self._taken_row(v)
        last = len(self.group.domain) - 1
        along = [v for v in roots if self.kind[v.id] == "along" and last in v.attr]
        if self.is_short:
            parts = self._body(t, Columns("0", columns, shared))
            for v in along:
                self._finish(v, em.reduce(v.op, parts[v.id], ELEMENTS[v.dtype], columns))
            return
        width = self.width
        full, rest = divmod(columns, width)
        partial: dict[int, str] = {}
        if self.is_moving:
            partial = self._loop_of_any_length(t, along, 0, full * width, width)
            tails = self._loop_of_any_length(t, along, full * width, columns, 1)
            for v in along:
                total = em.combine(v.op, partial[v.id], tails[v.id], ELEMENTS[v.dtype], 1)
                self._finish(v, total)
            return
        if full == 1:
            parts = self._body(t, Columns("0", width, {}))
            partial = {v.id: em.reduce(v.op, parts[v.id], ELEMENTS[v.dtype], width) for v in along}
        else:
            partial = self._loop(t, along, full * width)
        if rest:
            parts = self._body(t, Columns(str(full * width), rest, {}))
            for v in along:
                e = ELEMENTS[v.dtype]
                tail = em.reduce(v.op, parts[v.id], e, rest)
                partial[v.id] = em.combine(v.op, partial[v.id], tail, e, 1)
        for v in along:
            self._finish(v, partial[v.id])

    def _loop(self, t: int, along: list[Val], end: int) -> dict[int, str]:
        """A loop over columns that runs at least once."""
        em, width = self.em, self.width
        loop, after = em.label(), em.label()
        em.raw(f"  br label %{loop}.pre")
        em.raw(f"{loop}.pre:")
        known = self._splats(t, width)
        em.raw(f"  br label %{loop}")
        totals, _ = self._turns(t, along, loop, after, (0, end, width), known)
        em.raw(f"{after}:")
        return {v.id: em.reduce(v.op, totals[v.id], ELEMENTS[v.dtype], width) for v in along}

    def _loop_of_any_length(
        self, t: int, along: list[Val], start: int, end: int, width: int
    ) -> dict[int, str]:
        """The same for bounds that other sizes change, so that it may have nothing to do."""
        em = self.em
        loop, after = em.label(), em.label()
        em.raw(f"  br label %{loop}.pre")
        em.raw(f"{loop}.pre:")
        known = self._splats(t, width)
        first = em.t(f"add i64 {start}, 0")
        some = em.t(f"icmp slt i64 {first}, {end}")
        em.raw(f"  br i1 {some}, label %{loop}, label %{after}")
        totals, block = self._turns(t, along, loop, after, (first, end, width), known)
        em.raw(f"{after}:")
        made = {}
        for number, v in enumerate(along):
            e = ELEMENTS[v.dtype]
            begin, kind = em.number(start_of(v), e, width), vector_type(e, width)
            em.raw(f"  %{loop}.t{number} = phi {kind} [ {begin}, %{loop}.pre ], "
                   f"[ {totals[v.id]}, %{block} ]")  # fmt: skip
        for number, v in enumerate(along):
            made[v.id] = em.reduce(v.op, f"%{loop}.t{number}", ELEMENTS[v.dtype], width)
        return made

    def _turns(
        self, t: int, along: list[Val], loop: str, after: str, bounds: Any, known: dict[int, str]
    ) -> tuple[dict[int, str], str]:
        """A loop that goes on at `after`; the totals, and the name of its last block.

        Long sums are made in chains of some turns, whose sums are added with what that rounds off.
        """
        em = self.em
        start, end, width = bounds
        floating = any(_loses_digits(v) for v in along)
        if not floating or width == 1 or self.group.columns <= CHAIN * width:
            totals = self._looped(t, along, loop, bounds, known)
            em.raw(f"  br i1 %{loop}.m, label %{loop}, label %{after}")
            return totals, loop
        chain, block = em.label(), f"{loop}.end"
        em.raw(f"{loop}:")
        em.raw(f"  %{loop}.c = phi i64 [ {start}, %{loop}.pre ], [ %{loop}.n, %{block} ]")
        place = len(em.lines)
        em.lines += [""] * (2 * len(along))
        far = em.t(f"add i64 %{loop}.c, {CHAIN * width}")
        less = em.t(f"icmp slt i64 {far}, {end}")
        em.raw(f"  %{loop}.n = select i1 {less}, i64 {far}, i64 {end}")
        em.raw(f"  br label %{chain}.pre")
        em.raw(f"{chain}.pre:")
        em.raw(f"  br label %{chain}")
        parts = self._looped(t, along, chain, (f"%{loop}.c", f"%{loop}.n", width), dict(known))
        em.raw(f"  br i1 %{chain}.m, label %{chain}, label %{block}")
        em.raw(f"{block}:")
        totals = {}
        for number, v in enumerate(along):
            e, kind = ELEMENTS[v.dtype], vector_type(ELEMENTS[v.dtype], width)
            so_far, off = f"%{loop}.a{number}", f"%{loop}.o{number}"
            begin = em.number(start_of(v), e, width)
            if _loses_digits(v):
                made, lost = em.exact_sum(so_far, off, parts[v.id], e, width)
                em.lines[place + 2 * number + 1] = (
                    f"  {off} = phi {kind} [ {begin}, %{loop}.pre ], [ {lost}, %{block} ]"
                )
                totals[v.id] = em.with_lost(made, lost, e, width)
            else:
                made = totals[v.id] = em.combine(v.op, so_far, parts[v.id], e, width)
            em.lines[place + 2 * number] = (
                f"  {so_far} = phi {kind} [ {begin}, %{loop}.pre ], [ {made}, %{block} ]"
            )
        em.raw(f"  %{loop}.m = icmp slt i64 %{loop}.n, {end}")
        em.raw(f"  br i1 %{loop}.m, label %{loop}, label %{after}")
        return totals, block

    def _looped(
        self, t: int, along: list[Val], loop: str, bounds: Any, known: dict[int, str]
    ) -> dict[int, str]:
        """The block of a loop, up to its branch; the totals so far."""
        em = self.em
        start, end, width = bounds
        em.raw(f"{loop}:")
        em.raw(f"  %{loop}.c = phi i64 [ {start}, %{loop}.pre ], [ %{loop}.n, %{loop} ]")
        sums = len(em.lines)
        em.lines += [""] * len(along)
        parts = self._body(t, Columns(f"%{loop}.c", width, known))
        totals = {}
        for number, v in enumerate(along):
            e = ELEMENTS[v.dtype]
            so_far = f"%{loop}.a{number}"
            new = em.combine(v.op, so_far, parts[v.id], e, width)
            start = em.number(start_of(v), e, width)
            em.lines[sums + number] = (
                f"  {so_far} = phi {vector_type(e, width)} [ {start}, %{loop}.pre ], "
                f"[ {new}, %{loop} ]"
            )
            totals[v.id] = new
        em.raw(f"  %{loop}.n = add i64 %{loop}.c, {width}")
        em.raw(f"  %{loop}.m = icmp slt i64 %{loop}.n, {end}")
        return totals

    def _splats(self, t: int, width: int) -> dict[int, str]:
        """Values per row that a loop asks for, spread before it begins."""
        known: dict[int, str] = {}
        for v in (*self.computed[t], *self.roots[t]):
            for one in (*map(self.plan.builder.strip, v.ins), v):
                if one.id in self.per_row and one.id not in known:
                    name, e = self.per_row[one.id], ELEMENTS[one.dtype]
                    known[one.id] = self.em.splat(name, e, width)
        return known

    def _body(self, t: int, at: Columns) -> dict[int, str]:
        parts: dict[int, str] = {}
        for v in self.computed[t]:
            if v.id not in at.known:
                at.known[v.id] = self._compute(v, at)
            if v.id in self.buffers and self.done[v.id] == t:
                self._store(at.known[v.id], self._buffer(v), at.first, v.dtype, at.width)
        last = len(self.group.domain) - 1
        for v in self.roots[t]:
            if self.kind[v.id] == "column":
                x = self._operand(v, at)
                self._store(x, self._own_pointer(v), at.first, v.dtype, at.width)
                continue
            x = self._operand(v.ins[0], at)
            if last in v.attr:
                parts[v.id] = x
            else:  # over other rows: added to memory
                p = self._total_pointer(v)
                before = self._load(p, at.first, 1, v.dtype, at.width)
                total = self.em.combine(v.op, before, x, ELEMENTS[v.dtype], at.width)
                self._store(total, p, at.first, v.dtype, at.width)
        return parts

    def _total_pointer(self, v: Val) -> str:
        """Where a reduction over rows adds up: threads and blocks of rows have copies."""
        copies = self.plan.copies.get(v.id)
        if copies is None:
            return self._own_pointer(v)
        key = ("copy", v.id)
        if key not in self.pointers:
            self.pointers[key] = self.em.t(f"mul i64 {self._copy(v)}, {self.plan.apart(v)}")
        return self._pointer(copies, 0, self.layout(v)[0], v.dtype, self.pointers[key])

    def _copy(self, v: Val) -> str:
        """The number of the copy of a total that this thread adds this row to."""
        blocks, em = self.plan.blocks.get(v.id), self.em
        if blocks is None:
            return "%tid"
        place = "%r" if blocks.step == 1 else em.t(f"udiv i64 %r, {blocks.step}")
        if blocks.starts_anew:
            place = em.t(f"urem i64 {place}, {blocks.size}")
        place = em.t(f"udiv i64 {place}, {blocks.length}")
        # A block that two threads share has a copy each: the later thread is one copy ahead.
        first = "%tid"
        if not blocks.is_outermost:
            first = em.t(f"mul i64 %tid, {number_of(blocks, em)}")
        return em.t(f"add i64 {place}, {first}")

    def _finish(self, v: Val, total: str) -> None:
        if last_only(v, self.group.domain):
            self.per_row[v.id] = total
            if v.id in self.plan.stored:
                self._store(total, self._own_pointer(v), "0", v.dtype, 1)
            return
        p = self._total_pointer(v)
        before = self._load(p, "0", 1, v.dtype, 1)
        self._store(self.em.combine(v.op, before, total, ELEMENTS[v.dtype], 1), p, "0", v.dtype, 1)


class Columns:
    """Where in a row the code that is being written stands, and what is at hand there."""

    __slots__ = ("first", "known", "width")

    def __init__(self, first: str, width: int, known: dict[int, str]) -> None:
        self.first, self.width, self.known = first, width, known


def number_of(blocks: RowBlocks, em: Emitter) -> str:
    """How many blocks there are, from the number of rows: that is what sizes change."""
    rounded_up = em.t(f"add i64 {blocks.size}, {blocks.length - 1}")
    return em.t(f"udiv i64 {rounded_up}, {blocks.length}")


def _loses_digits(v: Val) -> bool:
    return v.op == "sum" and v.dtype[0] == "f"


def _in_memory(dtype: str) -> str:
    return "i8" if dtype == "b1" else ELEMENTS[dtype]
