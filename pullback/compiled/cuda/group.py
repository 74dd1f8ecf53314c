"""A group as CUDA kernels.

    flat    no reductions: a thread for each element; of many, for eight that it reads beforehand
    rows    a team of 1, 32 or more threads for each row; row buffers in shared memory
    wide    few long rows: many blocks share a row, and each stage is a kernel of its own

Sums over rows are kept by each team in registers (or, of long rows, in memory of its own) and added
up by a last kernel, in a fixed order.
"""

from __future__ import annotations

from typing import Any

from pullback.compiled.cuda.launch import BLOCK, Launch, how, index_type, joined
from pullback.compiled.cuda.plan import is_wide
from pullback.compiled.ir.in_c import TYPES, expression, number
from pullback.compiled.ir.values import REDUCTIONS, Val
from pullback.compiled.plan.plan import Group, Plan, last_only
from pullback.compiled.plan.stages import Stages, start_of

__all__ = ["GroupKernels"]

_SHARED = 40 * 1024  # bytes of row buffers, of the 48 kB that every device has
_SMALL_BLOCK = 128
_TEAMS = 1056  # that keep totals of their own: eight for each processor of a large device
_TEAMS_OF_ONE = 65536
_MOST_COPIES = 1 << 24  # elements
_IN_REGISTERS = 8  # totals of a thread
_BLOCKS_OF_ROW = 512
_MANY = 1 << 20  # elements: a thread for each would wait for memory more than it works
_MOST_AHEAD = 32  # elements that a thread holds


class GroupKernels(Stages):
    """Writes the kernels of one group: `texts` (each once), and `launches` in order."""

    def __init__(self, plan: Plan, group: Group, name: str, scratch: int) -> None:
        """`scratch` is the slot of memory that holds copies of totals for a while."""
        self.name, self.scratch = name, scratch
        self.way = "flat"
        if any(v.op in REDUCTIONS for v in group.nodes):
            self.way = "wide" if is_wide(group.domain) else "rows"
        columns = group.columns
        self.lanes = 1 if columns <= 16 else 32 if columns < 512 else 256 if columns < 8192 else 512
        self.block = max(self.lanes, _SMALL_BLOCK) if self.way == "rows" else BLOCK
        self.teams = self.block // self.lanes  # of a block
        room = _SHARED // self.teams if self.way == "rows" and self.lanes > 1 else 0
        short = self.way == "flat" or (self.way == "rows" and self.lanes == 1)
        super().__init__(plan, group, 64 * columns if short else room)
        self.index = index_type(max([group.rows * columns, *(_reach(v) for v in group.nodes)]))
        self.texts: dict[str, str] = {}  # by name of the kernel
        self.launches: list[Launch] = []
        self.scratch_bytes = 0
        getattr(self, f"_{self.way}")()

    # A kernel under way -----------------------------------------------------------------------

    def _begin(self) -> None:
        self.bases: dict[int, tuple[str, str]] = {}  # slot -> name, type
        self.offsets: dict[Any, str] = {}
        self.numbers: dict[int, int] = {}  # values are counted anew: equal kernels read the same
        self.lines: list[str] = []
        self.ahead: dict[str, str] | None = None  # what is read beforehand: name, text

    def _n(self, v: Val) -> int:
        return self.numbers.setdefault(v.id, len(self.numbers))

    def _base(self, slot: int, dtype: str) -> str:
        return self.bases.setdefault(slot, (f"b{len(self.bases)}", TYPES[dtype]))[0]

    def _place(self, v: Val, rows: tuple[int, ...], off: int) -> str:
        """The number of the first element of this row."""
        terms = [str(off)] if off else []
        for step, n, s in self.places(rows):
            place = "r" if step == 1 else f"r / {step}"
            if n:
                place = f"{place} % {n}"
            terms.append(f"{place} * {s}" if s == 1 or place == "r" else f"({place}) * {s}")
        text = " + ".join(terms) or "0"
        if text.isdigit() or text == "r * 1":
            return text.replace(" * 1", "")
        return self.offsets.setdefault(text, f"o{len(self.offsets)}")

    def _element(self, v: Val, c: str) -> str:
        """An element of a value in memory, at this row and a column."""
        rows, step = self.layout(v)
        place = self._place(v, rows, v.off)
        terms = [] if place == "0" else [place]
        if step and c != "0":
            terms.append(c if step == 1 else f"{c} * {step}")
        base = self._base(self.plan.slot[v.base.id], v.dtype)
        return f"{base}[{' + '.join(terms) or '0'}]"

    def _operand(self, one: Val, known: set[int], pad: str) -> str:
        one = self.plan.builder.strip(one)
        if one.op == "const":
            return number(one.attr[0], one.dtype)
        name = f"t{self._n(one)}"
        if one.id not in known:
            known.add(one.id)
            text, kind = self._read(one), TYPES[one.dtype]
            if self.ahead is not None and text != "c":
                self.ahead[f"{kind} {name}"] = text
                text = f"{name}s[k]"
            self.lines.append(f"{pad}const {kind} {name} = {text};")
        return name

    def _read(self, one: Val) -> str:
        if one.op == "iota":
            return "c"
        if one.id in self.buffers and self.group.is_local(one):
            return self._buffered(one)
        return self._element(one, "c")

    def _buffered(self, v: Val) -> str:
        shift = "" if self.teams == 1 or self.lanes == 1 else f"{self.group.columns} * own + "
        return f"s{self.buffers[v.id]}[{shift}c]"

    def _compute(self, v: Val, known: set[int], pad: str) -> None:
        if v.id in known:
            return
        read = [self._operand(one, known, pad) for one in v.ins]
        known.add(v.id)
        if v.op in ("sin", "cos") and self._both(v, read[0], known, pad):
            return
        self.lines.append(f"{pad}const {TYPES[v.dtype]} t{self._n(v)} = {expression(v, read)};")

    def _both(self, v: Val, x: str, known: set[int], pad: str) -> bool:
        """Sine and cosine of one value, where both are wanted: they have their reduction in common.

        The other one is known from here on.
        """
        wanted, of = ("cos" if v.op == "sin" else "sin"), self.plan.builder.strip(v.ins[0])
        for other in self.group.nodes:
            if other.op == wanted and self.plan.builder.strip(other.ins[0]) is of:
                break
        else:
            return False
        if other.id in known or other.dtype != v.dtype or self.done[other.id] != self.done[v.id]:
            return False
        known.add(other.id)
        sine, cosine = (v, other) if v.op == "sin" else (other, v)
        names = f"t{self._n(sine)}", f"t{self._n(cosine)}"
        function = "sincosf" if v.dtype == "f4" else "sincos"
        self.lines.append(f"{pad}{TYPES[v.dtype]} {names[0]}, {names[1]};")
        self.lines.append(f"{pad}{function}({x}, &{names[0]}, &{names[1]});")
        return True

    def _text(self, name: str, before: list[str], row: list[str], after: list[str]) -> None:
        """Enter the kernel: what comes before the rows, what is done in each, what comes after."""
        lines = []
        for line in row:
            if line.strip() != "//":
                lines.append(line)
                continue
            pad = line[:-2]
            lines += [f"{pad}const {self.index} {o} = {text};" for text, o in self.offsets.items()]
        given = ", ".join(f"{kind}* {one}" for one, kind in self.bases.values())
        head = f'extern "C" __global__ void {name}({given}) {{'
        self.texts[name] = "\n".join([head, *before, *lines, *after, "}"])

    def _launch(self, name: str, grid: tuple[int, ...], block: int) -> None:
        self.launches.append(Launch(name, grid, block, tuple(self.bases)))

    # A thread for each element ----------------------------------------------------------------

    def _flat(self) -> None:
        self._begin()
        columns, size = self.group.columns, self.group.rows * self.group.columns
        if size >= _MANY:
            self.ahead = {}
        known: set[int] = set()
        for v in self.computed[0]:
            self._compute(v, known, "    ")
        for v in self.roots[0]:
            self.lines.append(f"    {self._element(v, 'c')} = t{self._n(v)};")
        each = 1
        while self.ahead and each < 8 and 2 * each * len(self.ahead) <= _MOST_AHEAD:
            each *= 2
        i = self.index
        place = "r = 0, c = i" if self.group.rows == 1 else f"r = i / {columns}, c = i % {columns}"
        loop = [
            "  #pragma unroll",
            f"  for (int k = 0; k < {each}; ++k) {{",
            f"    const {i} i = first + k * {BLOCK};",
            f"    if (i >= {size}) break;",
            f"    const {i} {place};",
        ]
        before = [f"  const {i} first = blockIdx.x * ({i}){BLOCK * each} + threadIdx.x;"]
        before += [f"  {name}s[{each}];" for name in self.ahead or ()]
        row = [*loop, "    //"]
        if self.ahead:
            row += [f"    {name.split()[-1]}s[k] = {text};" for name, text in self.ahead.items()]
            row += ["  }", *loop, "    //"]
        self._text(self.name, before, [*row, *self.lines, "  }"], [])
        self._launch(self.name, (-(-size // (BLOCK * each)),), BLOCK)

    # A team for each row ----------------------------------------------------------------------

    def _rows(self) -> None:
        self._begin()
        group, i = self.group, self.index
        self.totals = group.accumulated()
        self.copies = self._copies()
        last = len(group.domain) - 1
        before = [
            f"  const int lane = threadIdx.x % {self.lanes}, own = threadIdx.x / {self.lanes};",
            f"  const int team = blockIdx.x * {self.teams} + own, "
            f"teams = gridDim.x * {self.teams};",
        ]
        before += self._shared_lines()
        for v in self.totals:
            before += self._begun_total(v, in_columns=last not in v.attr)
        known: set[int] = set()
        for t in range(self.stages):
            self._row_values(t, known, "lane == 0", "    ")
            self._stage(t, known)
        for t in range(self.stages, max(self.stage.values(), default=0) + 1):
            self._row_values(t, known, "lane == 0", "    ")
        row = [f"  for ({i} r = team; r < {group.rows}; r += teams) {{", "    //", *self.lines]
        row.append("  }")
        self.lines = []
        for v in self.totals:
            self._written_total(v, in_columns=last not in v.attr)
        self._text(self.name, before, row, self.lines)
        grid = -(-min(group.rows, self.copies or group.rows) // self.teams)
        self._launch(self.name, (grid,), self.block)
        self._join(grid * self.teams)

    def _shared_lines(self) -> list[str]:
        by_id = {v.id: v for v in self.group.nodes}
        where = "" if self.lanes == 1 else "__shared__ "
        size = self.group.columns * (1 if self.lanes == 1 else self.teams)
        return [
            f"  {where}{TYPES[by_id[n].dtype]} s{number}[{size}];"
            for n, number in self.buffers.items()
        ]

    def _copies(self) -> int:
        """How many teams there are where each keeps totals; 0 where none are kept."""
        if not self.totals:
            return 0
        most = _TEAMS_OF_ONE if self.lanes == 1 else _TEAMS
        largest = max(v.size for v in self.totals)
        wanted = max(min(most, _MOST_COPIES // largest), 1)
        return -(-wanted // self.teams) * self.teams

    def _row_values(self, t: int, known: set[int], first: str, pad: str) -> None:
        """Values of one per row that stage `t` may ask for."""
        for v in self.group.nodes:
            if self.kind[v.id] == "row" and self.stage[v.id] == t:
                self._row_value(v, known, pad)
                if v.id in self.plan.stored:
                    self.lines.append(f"{pad}if ({first}) {self._element(v, '0')} = t{self._n(v)};")

    def _row_value(self, v: Val, known: set[int], pad: str) -> None:
        read = []
        for one in map(self.plan.builder.strip, v.ins):
            if one.op == "const" or one.id in known:
                read.append(self._operand(one, known, pad))
                continue
            known.add(one.id)
            kind = TYPES[one.dtype]
            self.lines.append(f"{pad}const {kind} t{self._n(one)} = {self._element(one, '0')};")
            read.append(f"t{self._n(one)}")
        known.add(v.id)
        self.lines.append(f"{pad}const {TYPES[v.dtype]} t{self._n(v)} = {expression(v, read)};")

    def _stage(self, t: int, known: set[int]) -> None:
        columns, last = self.group.columns, len(self.group.domain) - 1
        along = [v for v in self.roots[t] if last_only(v, self.group.domain)]
        for v in along:
            self.lines.append(f"    {TYPES[v.dtype]} p{self._n(v)} = {_start(v)};")
        if any(self._in_registers(v) for v in self.totals):
            self.lines.append("    #pragma unroll")
            count = -(-columns // self.lanes)
            self.lines.append(f"    for (int k = 0; k < {count}; ++k) {{")
            self.lines.append(f"      const {self.index} c = lane + k * {self.lanes};")
            if columns % self.lanes:
                self.lines.append(f"      if (c >= {columns}) break;")
        else:
            step = f"c < {columns}; c += {self.lanes}"
            self.lines.append(f"    for ({self.index} c = lane; {step}) {{")
        self._body(t, set(known), last)
        self.lines.append("    }")
        for v in along:
            self._finish(v, known)

    def _body(self, t: int, here: set[int], last: int) -> None:
        pad = "      "
        for v in self.computed[t]:
            if v.id not in here:
                self._compute(v, here, pad)
            if v.id in self.buffers and self.done[v.id] == t:
                self.lines.append(f"{pad}{self._buffered(v)} = t{self._n(v)};")
        for v in self.roots[t]:
            if self.kind[v.id] == "column":
                x = self._operand(v, here, pad)
                self.lines.append(f"{pad}{self._element(v, 'c')} = {x};")
                continue
            x = self._operand(v.ins[0], here, pad)
            target = f"p{self._n(v)}"
            if not last_only(v, self.group.domain) and self.way == "rows":
                target = f"a{self._n(v)}" if last in v.attr else self._total(v)
            self.lines.append(f"{pad}{target} = both({how(v)}(), {target}, {x});")

    def _finish(self, v: Val, known: set[int]) -> None:
        """A reduction along the row, at hand for all of the team."""
        among = {1: "", 32: f"of_warp<{how(v)}>"}.get(self.lanes, f"of_block<{how(v)}>")
        self.lines.append(f"    const {TYPES[v.dtype]} t{self._n(v)} = {among}(p{self._n(v)});")
        known.add(v.id)
        if v.id in self.plan.stored:
            self.lines.append(f"    if (lane == 0) {self._element(v, '0')} = t{self._n(v)};")

    # Totals over rows -------------------------------------------------------------------------

    def _in_registers(self, v: Val) -> bool:
        in_columns = len(self.group.domain) - 1 not in v.attr
        return in_columns and -(-self.group.columns // self.lanes) <= _IN_REGISTERS

    def _total(self, v: Val) -> str:
        """Where a thread adds up a column."""
        if self._in_registers(v):
            return f"a{self._n(v)}[k]"
        return f"a{self._n(v)}[c]"

    def _begun_total(self, v: Val, *, in_columns: bool) -> list[str]:
        kind, start = TYPES[v.dtype], _start(v)
        if not in_columns:
            return [f"  {kind} a{self._n(v)} = {start};"]
        if self._in_registers(v):
            count = -(-self.group.columns // self.lanes)
            return [f"  {kind} a{self._n(v)}[{count}];", "  #pragma unroll",
                    f"  for (int k = 0; k < {count}; ++k) a{self._n(v)}[k] = {start};"]  # fmt: skip
        loop = f"for ({self.index} c = lane; c < {v.size}; c += {self.lanes})"
        return [
            f"  {kind}* const a{self._n(v)} = {self._own_copy(v)};",
            f"  {loop} a{self._n(v)}[c] = {start};",
        ]

    def _own_copy(self, v: Val) -> str:
        """Memory of a team's totals, in the scratch."""
        name = self._base(self.scratch, "b1")
        return f"({TYPES[v.dtype]}*)({name} + {self._scratch_at(v)}) + (long long)team * {v.size}"

    def _scratch_at(self, v: Val) -> int:
        at = 0
        for one in self.totals:
            if one is v:
                break
            at += -(-self.copies * one.size * one.itemsize // 256) * 256
        return at

    def _written_total(self, v: Val, *, in_columns: bool) -> None:
        kind, copy = TYPES[v.dtype], self._own_copy(v)
        if not in_columns:
            among = {1: "", 32: f"of_warp<{how(v)}>"}.get(self.lanes, f"of_block<{how(v)}>")
            self.lines.append(f"  a{self._n(v)} = {among}(a{self._n(v)});")
            self.lines.append(f"  if (lane == 0) *({copy}) = a{self._n(v)};")
        elif self._in_registers(v):
            count = -(-self.group.columns // self.lanes)
            self.lines += [
                f"  {kind}* const w{self._n(v)} = {copy};",
                "  #pragma unroll",
                f"  for (int k = 0; k < {count}; ++k)",
                f"    if (lane + k * {self.lanes} < {v.size}) "
                f"w{self._n(v)}[lane + k * {self.lanes}] = a{self._n(v)}[k];",
            ]

    def _join(self, copies: int) -> None:
        for v in self.totals:
            at = self._scratch_at(v)
            self.scratch_bytes = max(self.scratch_bytes, at + self.copies * v.size * v.itemsize)
            self._joined(v, at // v.itemsize, v.size, copies, 1, v.size)

    def _joined(self, v: Val, at: int, n: int, copies: int, across: int, along: int) -> None:
        text, launch = joined(v, (self.scratch, at), self.plan.slot[v.id], n, copies, across, along)
        self.texts[launch.kernel] = text
        self.launches.append(launch)

    # Blocks that share a row ------------------------------------------------------------------

    def _wide(self) -> None:
        group = self.group
        blocks = min(-(-group.columns // (4 * BLOCK)), _BLOCKS_OF_ROW)
        last = max(max(self.stage.values(), default=0), self.stages - 1)
        for t in range(last + 1):
            self._begin()
            self.totals = []
            along = (
                [v for v in self.roots[t] if self.kind[v.id] == "along"] if t < self.stages else []
            )
            self._wide_kernel(t, along, blocks)
            at = 0
            for v in along:
                one = last_only(v, group.domain)
                n, copies = (group.rows, blocks) if one else (1, blocks * group.rows)
                self._joined(v, at // v.itemsize, n, copies, blocks, 1)
                at += -(-group.rows * blocks * v.itemsize // 256) * 256
            self.scratch_bytes = max(self.scratch_bytes, at)

    def _wide_kernel(self, t: int, along: list[Val], blocks: int) -> None:
        group, i = self.group, self.index
        known = self._earlier(t)
        self._row_values(t, known, "blockIdx.x == 0 && threadIdx.x == 0", "  ")
        if t < self.stages:
            for v in along:
                self.lines.append(f"  {TYPES[v.dtype]} p{self._n(v)} = {_start(v)};")
            begin = f"{i} c = blockIdx.x * ({i}){BLOCK} + threadIdx.x"
            step = f"c < {group.columns}; c += {blocks * BLOCK}"
            self.lines.append(f"  for ({begin}; {step}) {{")
            self._body(t, set(known), len(group.domain) - 1)
            self.lines.append("  }")
        at = 0
        for v in along:
            kind, base = TYPES[v.dtype], self._base(self.scratch, "b1")
            place = f"(({kind}*)({base} + {at}))[r * {blocks} + blockIdx.x]"
            self.lines += [f"  p{self._n(v)} = of_block<{how(v)}>(p{self._n(v)});",
                           f"  if (threadIdx.x == 0) {place} = p{self._n(v)};"]  # fmt: skip
            at += -(-group.rows * blocks * v.itemsize // 256) * 256
        name = f"{self.name}_{t}"
        self._text(name, [f"  const {i} r = blockIdx.y;"], ["  //", *self.lines], [])
        self._launch(name, (blocks if t < self.stages else 1, group.rows), BLOCK)

    def _earlier(self, t: int) -> set[int]:
        """Values per row of the stages before: reductions read back, the rest computed again."""
        known: set[int] = set()
        for v in self.group.nodes:
            if self.stage[v.id] >= t:
                continue
            if last_only(v, self.group.domain):
                known.add(v.id)
                kind = TYPES[v.dtype]
                self.lines.append(f"  const {kind} t{self._n(v)} = {self._element(v, '0')};")
            elif self.kind[v.id] == "row":
                self._row_value(v, known, "  ")
        return known


def _start(v: Val) -> str:
    return number(start_of(v), v.dtype)


def _reach(v: Val) -> int:
    """The largest place that a value's operands are read at."""
    return max([one.base.size + one.off for one in v.ins], default=0)
