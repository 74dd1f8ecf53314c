"""Products of matrices as machine code for their sizes: tiles of the result stay in registers.

A tile is a few rows of the result by a few vectors. For each step along the sum it takes a row of
vectors of the second matrix and one number of each row of the first, spread over a vector. The
second matrix is copied first, a panel as wide as a tile at a time, so that its rows lie one after
the other (unless they do, or are too few to matter); the first is read where it lies, whatever its
strides. What lies far apart is asked for ahead of time, as no processor guesses it.

Sizes and strides are constants of the code, so rest rows and columns have tiles of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from pullback.compiled.ir.values import BYTES
from pullback.compiled.llvm.emit import ELEMENTS, Blocks, Emitter, literal, vector_type

__all__ = ["Tiles", "tiles_pay"]

_PANEL = 192 * 1024  # bytes of the stack for a panel
_BLOCK = 512 * 1024  # bytes of the first matrix that are gone through for each panel: half of L2
_LINE = 64  # bytes of a line of the cache
_FAR = 256  # bytes from one row to the next, from which on processors do not read ahead
_AHEAD = 16  # steps: a tile's step takes 10 to 25 cycles, the third cache some 170
_WIDEST = 4  # vectors of a tile
_ROWS_TO_COPY_FOR = 16  # with fewer rows, copying a panel takes as long as multiplying with it


def tiles_pay(machine: Any, dtype: str, m: int, k: int, n: int) -> bool:
    """Whether tiles are quicker than BLAS, as far as it was measured.

    With vectors of 64 bytes they were at all sizes from 16 rows and half a vector of columns on:
    1.1 to 1.25 times at (128, 784, 512) and the like, 3 times at (1000, 10, 10).
    """
    work = m * k * n
    if machine.vector_bytes < 32:
        return False
    wide = 2 * n * BYTES[dtype] >= machine.vector_bytes
    if machine.vector_bytes < 64:
        return wide and work <= 2**18
    return work <= 2**12 or (wide and (m >= _ROWS_TO_COPY_FOR or work <= 2**15))


@dataclass(frozen=True)
class Tiles:
    """The product of (m, k) by (k, n), from strides to text; `factor` adds it to what is there."""

    dtype: str
    m: int
    k: int
    n: int
    strides_a: tuple[int, int]
    strides_b: tuple[int, int]
    lead: int  # from a row of the result to the next
    factor: float | None
    vector_bytes: int

    @cached_property
    def name(self) -> str:
        """What its functions are called: products alike have the same ones."""
        strides = (*self.strides_a, *self.strides_b, self.lead)
        how = "" if self.factor is None else f"_{literal(self.factor, ELEMENTS[self.dtype])}"
        return "_".join(map(str, ("dot", self.dtype, self.m, self.k, self.n, *strides))) + how

    @cached_property
    def width(self) -> int:
        """Elements of a vector."""
        return self.vector_bytes // BYTES[self.dtype]

    @cached_property
    def panel(self) -> int:
        """Columns of a panel; the last one may have fewer."""
        vectors = -(-self.n // self.width)
        panels = -(-vectors // _WIDEST)
        return min(-(-vectors // panels) * self.width, self.n)

    @cached_property
    def panels(self) -> int:
        """How many there are."""
        return -(-self.n // self.panel)

    @cached_property
    def rows(self) -> int:
        """Rows of a tile: results, a row of vectors and a number fill the registers.

        The last panel's tiles have no more, so that all go through the same blocks of rows.
        """
        registers = 24 if self.vector_bytes == 64 else 12
        return min(registers // len(self.pieces(self.panel)), self.m)

    @cached_property
    def block(self) -> int:
        """Rows of the first matrix that are gone through for a panel, before the next panel."""
        rows = self.rows
        fitting = _BLOCK // (min(self.k, self.step) * BYTES[self.dtype])
        return min(max(fitting // rows, 16) * rows, -(-self.m // rows) * rows)

    @cached_property
    def blocks(self) -> int:
        """How many there are."""
        return -(-self.m // self.block)

    @cached_property
    def step(self) -> int:
        """Terms of a sum that are added before the panel ends, in whole vectors."""
        most = _PANEL // (sum(self.pieces(self.panel)) * BYTES[self.dtype])
        most -= most % self.width
        times = -(-self.k // most)
        return -(-self.k // (times * self.width)) * self.width

    def pieces(self, columns: int) -> list[int]:
        """Columns as vectors: whole ones, and the shortest power of two for what is left."""
        whole, left = divmod(columns, self.width)
        return [self.width] * whole + ([1 << (left - 1).bit_length()] if left else [])

    # Text -------------------------------------------------------------------------------------

    def call(self, em: Emitter, matrices: list[str], unit: str) -> None:
        """Multiply for one panel and block, `unit` of `panels * blocks`."""
        a, b, c = matrices
        e = ELEMENTS[self.dtype]
        if self.panels == self.blocks == 1:
            em.raw(f"  call void @{self.name}_panel(ptr {a}, ptr {b}, ptr {c}, i64 {self.m})")
            return
        panel = em.t(f"urem i64 {unit}, {self.panels}")
        block = em.t(f"udiv i64 {unit}, {self.panels}")
        first = em.t(f"mul i64 {block}, {self.block}")
        column = em.t(f"mul i64 {panel}, {self.panel}")
        a = em.at(e, a, em.t(f"mul i64 {first}, {self.strides_a[0]}"))
        b = em.at(e, b, em.t(f"mul i64 {column}, {self.strides_b[1]}"))
        row = em.t(f"mul i64 {first}, {self.lead}")
        c = em.at(e, c, em.t(f"add i64 {row}, {column}"))
        left = em.t(f"sub i64 {self.m}, {first}")
        fewer = em.t(f"icmp slt i64 {left}, {self.block}")
        rows = em.t(f"select i1 {fewer}, i64 {left}, i64 {self.block}")
        given = f"(ptr {a}, ptr {b}, ptr {c}, i64 {rows})"
        if self.n % self.panel:
            is_last = em.t(f"icmp eq i64 {panel}, {self.panels - 1}")
            function = em.t(f"select i1 {is_last}, ptr @{self.name}_last, ptr @{self.name}_panel")
            em.raw(f"  call void {function}{given}")
        else:
            em.raw(f"  call void @{self.name}_panel{given}")

    def write(self, functions: dict[str, str], declared: set[str]) -> None:
        """Add what `call` calls to what the program has."""
        if self.name in functions:
            return
        if self._needs_copy(self.panel) and self.strides_b[0] == 1 != self.strides_b[1]:
            e, w = ELEMENTS[self.dtype], self.width
            functions[f"@transpose_{e}_{w}"] = _transpose_text(e, w)
        texts = [*self._panel_texts("panel", self.panel, declared)]
        if self.n % self.panel:
            texts += self._panel_texts("last", self.n % self.panel, declared)
        functions[self.name] = "\n".join(texts)

    def _panel_texts(self, name: str, columns: int, declared: set[str]) -> Iterator[str]:
        """All terms of the sums of a panel, as many at a time as its copy has room for."""
        e, (along_a, along_b) = ELEMENTS[self.dtype], (self.strides_a[1], self.strides_b[0])
        whole, left = divmod(self.k, self.step)
        kinds = [(self.step, self.factor is not None)] if whole else []
        kinds += [(self.step, True)] if whole > 1 and self.factor is None else []
        kinds += [(left, whole > 0 or self.factor is not None)] if left else []
        if len(kinds) == 1 and whole <= 1:  # the usual one: there is nothing to put together
            yield from self._terms_texts(f"{self.name}_{name}", columns, *kinds[0], declared)
            return
        for terms, adds in kinds:
            part = f"{self.name}_{name}_{terms}{'_added' * adds}"
            yield from self._terms_texts(part, columns, terms, adds, declared)
        em = Blocks()

        def add(terms: int, adds: bool, number: str) -> None:
            a = em.at(e, "%a", em.t(f"mul i64 {number}, {self.step * along_a}"))
            b = em.at(e, "%b", em.t(f"mul i64 {number}, {self.step * along_b}"))
            em.raw(f"  call void @{self.name}_{name}_{terms}{'_added' * adds}"
                   f"(ptr {a}, ptr {b}, ptr %c, i64 %rows)")  # fmt: skip

        if whole:
            add(self.step, self.factor is not None, "0")
        if whole > 1:
            with em.loop(whole - 1) as number:
                add(self.step, True, em.t(f"add i64 {number}, 1"))
        if left:
            add(left, whole > 0 or self.factor is not None, str(whole))
        head = f"define internal void @{self.name}_{name}(ptr %a, ptr %b, ptr %c, i64 %rows) #0 {{"
        yield "\n".join([head, "entry:", *em.lines, "  ret void", "}"])

    def _terms_texts(
        self, name: str, columns: int, terms: int, adds: bool, declared: set[str]
    ) -> Iterator[str]:
        """Copy the panel if need be, then go through the rows, a tile at a time."""
        e, pieces = ELEMENTS[self.dtype], self.pieces(columns)
        em, rows = Blocks(), self.rows
        panel, lead = "%b", self.strides_b[0]
        head = [f"define internal void @{name}(ptr %a, ptr %b, ptr %c, i64 %rows) #0 {{", "entry:"]
        if self._needs_copy(columns):
            panel, lead = "%panel", sum(pieces)
            head.append(f"  %panel = alloca [{terms * lead} x {e}], align 64")
            self._copy(em, columns, terms, lead)
        inner = _TileText(self, pieces, columns, terms, lead, adds, declared)
        yield inner.text(f"{name}_tile", rows)

        def tile(row: str, kind: str) -> None:
            a = em.at(e, "%a", em.t(f"mul i64 {row}, {self.strides_a[0]}"))
            c = em.at(e, "%c", em.t(f"mul i64 {row}, {self.lead}"))
            em.raw(f"  call fastcc void @{name}_{kind}(ptr {a}, ptr {panel}, ptr {c})")

        if self.m >= rows:
            some = em.t(f"sub i64 %rows, {rows - 1}")
            with em.loop(some, rows, at_least_once=self.blocks == 1) as row:
                tile(row, "tile")
        left = self.m % rows
        if left:
            yield inner.text(f"{name}_rest", left)
            after = em.t(f"sub i64 %rows, {left}")
            with em.only_if(em.t(f"icmp ne i64 {em.t(f'urem i64 %rows, {rows}')}, 0")):
                tile(after, "rest")
        yield "\n".join([*head, *em.lines, "  ret void", "}"])

    def _needs_copy(self, columns: int) -> bool:
        """Whether the panel is read from a copy: vectors must lie as such, rows near each other."""
        lies = self.strides_b[1] == 1 and sum(self.pieces(columns)) == columns
        few = self.m < _ROWS_TO_COPY_FOR or columns == self.n
        return not (lies and few)

    def _copy(self, em: Blocks, columns: int, terms: int, lead: int) -> None:
        """Lay the rows of a panel one after the other, with zeros beyond its columns.

        Those are multiplied and never used; but whatever the stack had there, read as numbers too
        small for the usual form, made the product of 128 x 256 by 256 x 10 take 850 us, not 10.
        """
        e, align = ELEMENTS[self.dtype], BYTES[self.dtype]
        along, across = self.strides_b
        if lead > columns:
            last = self.pieces(columns)[-1]
            zeros = vector_type(e, last)
            with em.loop(terms) as k:
                end = em.t(f"add i64 {em.t(f'mul i64 {k}, {lead}')}, {lead - last}")
                at = em.at(e, "%panel", end)
                em.raw(f"  store {zeros} zeroinitializer, ptr {at}, align {align}")
        if across == 1:
            with em.loop(terms) as k:
                source = em.at(e, "%b", em.t(f"mul i64 {k}, {along}"))
                target = em.at(e, "%panel", em.t(f"mul i64 {k}, {lead}"))
                start = 0
                for w in self.pieces(columns):
                    kind = vector_type(e, min(w, columns - start))
                    x = em.t(f"load {kind}, ptr {em.at(e, source, start)}, align {align}")
                    em.raw(f"  store {kind} {x}, ptr {em.at(e, target, start)}, align {align}")
                    start += w
            return
        w = self.width
        whole, rows = columns - columns % w, terms - terms % w
        if along != 1:
            whole = 0
        if whole and rows:
            with em.loop(whole, w) as column, em.loop(rows, w) as k:
                row = em.t(f"mul i64 {column}, {across}")
                source = em.at(e, "%b", em.t(f"add i64 {row}, {k}"))
                row = em.t(f"mul i64 {k}, {lead}")
                target = em.at(e, "%panel", em.t(f"add i64 {row}, {column}"))
                em.raw(f"  call fastcc void @transpose_{e}_{w}"
                       f"(ptr {source}, i64 {across}, ptr {target}, i64 {lead})")  # fmt: skip
        if whole and rows < terms:
            self._copy_one_by_one(em, (0, whole), (rows, terms), lead)
        if whole < columns:
            self._copy_one_by_one(em, (whole, columns), (0, terms), lead)

    def _copy_one_by_one(
        self, em: Blocks, columns: tuple[int, int], terms: tuple[int, int], lead: int
    ) -> None:
        e, (along, across) = ELEMENTS[self.dtype], self.strides_b
        first = em.at(e, "%b", columns[0] * across + terms[0] * along)
        begin = em.at(e, "%panel", columns[0] + terms[0] * lead)
        with em.loop(columns[1] - columns[0]) as column, em.loop(terms[1] - terms[0]) as k:
            there = em.t(f"mul i64 {column}, {across}")
            there = em.t(f"add i64 {there}, {em.t(f'mul i64 {k}, {along}')}")
            here = em.t(f"add i64 {column}, {em.t(f'mul i64 {k}, {lead}')}")
            x = em.t(f"load {e}, ptr {em.at(e, first, there)}")
            em.raw(f"  store {e} {x}, ptr {em.at(e, begin, here)}")


class _TileText:
    """Writes the inner loop: `terms` steps along the sums of a tile."""

    def __init__(
        self,
        of: Tiles,
        pieces: list[int],
        columns: int,
        terms: int,
        lead: int,
        adds: bool,
        declared: set[str],
    ) -> None:
        self.of, self.pieces, self.columns = of, pieces, columns
        self.terms, self.lead, self.adds, self.declared = terms, lead, adds, declared
        self.starts = [sum(pieces[:number]) for number in range(len(pieces))]

    def text(self, name: str, rows: int) -> str:
        of, e = self.of, ELEMENTS[self.of.dtype]
        em = Emitter()
        self._ask_for_rows(em, rows)
        places = [(row, number) for row in range(rows) for number in range(len(self.pieces))]
        em.raw("  br label %terms")
        em.raw("terms:")
        em.raw("  %k = phi i64 [ 0, %entry ], [ %k.n, %terms ]")
        sums = {place: f"%s{place[0]}.{place[1]}" for place in places}
        begin = len(em.lines)
        em.lines += [""] * len(places)
        a = em.at(e, "%a", em.t(f"mul i64 %k, {of.strides_a[1]}"))
        b = em.at(e, "%b", em.t(f"mul i64 %k, {self.lead}"))
        self._ask_for_terms(em, a, b, rows)
        vectors = [
            self._load(em, b, start, w) for start, w in zip(self.starts, self.pieces, strict=True)
        ]
        made, widest = {}, self.pieces[0]
        for row in range(rows):
            number = em.t(f"load {e}, ptr {em.at(e, a, row * of.strides_a[0])}")
            spread = em.splat(number, e, widest)
            for column, w in enumerate(self.pieces):
                x = spread if w == widest else em.first(spread, e, widest, w)
                made[row, column] = em.fma(x, vectors[column], sums[row, column], e, w)
        em.raw("  %k.n = add i64 %k, 1")
        em.raw(f"  %k.more = icmp slt i64 %k.n, {self.terms}")
        em.raw("  br i1 %k.more, label %terms, label %done")
        for line, (place, total) in enumerate(made.items(), begin):
            kind = vector_type(e, self.pieces[place[1]])
            zero = "zeroinitializer" if self.pieces[place[1]] > 1 else literal(0, e)
            em.lines[line] = f"  {sums[place]} = phi {kind} [ {zero}, %entry ], [ {total}, %terms ]"
        em.raw("done:")
        for (row, column), total in made.items():
            self._store(em, row, column, total)
        head = f"define internal fastcc void @{name}(ptr %a, ptr %b, ptr %c) #0 {{"
        self.declared |= em.declared
        return "\n".join([head, "entry:", *em.lines, "  ret void", "}"])

    def _ask_for_terms(self, em: Emitter, a: str, b: str, rows: int) -> None:
        """Terms some steps ahead, where each is far from the last."""
        size = BYTES[self.of.dtype]
        down, along = self.of.strides_a
        if along * size >= _FAR and down * size < _FAR:
            self._ask(em, a, _AHEAD * along, rows * down)
        if self.lead * size >= _FAR:
            self._ask(em, b, _AHEAD * self.lead, self.columns)

    def _ask_for_rows(self, em: Emitter, rows: int) -> None:
        """The rows of the next tile, of the result and of a first matrix whose rows are short."""
        of, size = self.of, BYTES[self.of.dtype]
        down, along = of.strides_a
        for row in range(rows, 2 * rows):
            self._ask(em, "%c", row * of.lead, self.columns)
            if down * size >= _FAR and self.terms * along * size < _FAR:
                self._ask(em, "%a", row * down, self.terms * along)

    def _ask(self, em: Emitter, p: str, first: int, count: int) -> None:
        """Have `count` elements brought near; it does no harm where there are none."""
        e, size = ELEMENTS[self.of.dtype], BYTES[self.of.dtype]
        em.declared.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        for offset in sorted({*range(0, count, _LINE // size), count - 1}):
            at = em.at(e, p, first + offset)
            em.raw(f"  call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 3, i32 1)")

    def _load(self, em: Emitter, p: str, start: int, w: int) -> str:
        e = ELEMENTS[self.of.dtype]
        return em.t(
            f"load {vector_type(e, w)}, ptr {em.at(e, p, start)}, align {BYTES[self.of.dtype]}"
        )

    def _store(self, em: Emitter, row: int, column: int, total: str) -> None:
        """Keep a vector of results, or what of it there is in the matrix."""
        of, e, w = self.of, ELEMENTS[self.of.dtype], self.pieces[column]
        there = min(w, self.columns - self.starts[column])
        if there < w:
            total = em.first(total, e, w, there)
        at = em.at(e, "%c", row * of.lead + self.starts[column])
        kind, align = vector_type(e, there), BYTES[of.dtype]
        if self.adds:
            before = em.t(f"load {kind}, ptr {at}, align {align}")
            factor = 1.0 if of.factor is None else of.factor
            total = em.fma(total, em.number(factor, e, there), before, e, there)
        em.raw(f"  store {kind} {total}, ptr {at}, align {align}")


@cache
def _transpose_text(e: str, w: int) -> str:
    """A square of `w` by `w` elements: halves of neighbours change places, at every distance."""
    em = Emitter()
    kind, align = vector_type(e, w), 4 if e == "float" else 8
    rows = []
    for number in range(w):
        at = em.at(e, "%s", em.t(f"mul i64 %ss, {number}"))
        rows.append(em.t(f"load {kind}, ptr {at}, align {align}"))
    apart = 1
    while apart < w:
        for number in range(w):
            if number & apart:
                continue
            pair = f"{kind} {rows[number]}, {kind} {rows[number | apart]}"
            low = ", ".join(f"i32 {w + (k ^ apart) if k & apart else k}" for k in range(w))
            high = ", ".join(f"i32 {w + k if k & apart else k | apart}" for k in range(w))
            rows[number] = em.t(f"shufflevector {pair}, <{w} x i32> <{low}>")
            rows[number | apart] = em.t(f"shufflevector {pair}, <{w} x i32> <{high}>")
        apart *= 2
    for number, row in enumerate(rows):
        at = em.at(e, "%d", em.t(f"mul i64 %ds, {number}"))
        em.raw(f"  store {kind} {row}, ptr {at}, align {align}")
    head = f"define internal fastcc void @transpose_{e}_{w}(ptr %s, i64 %ss, ptr %d, i64 %ds) #0 {{"
    return "\n".join([head, *em.lines, "  ret void", "}"])
