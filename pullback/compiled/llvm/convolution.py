"""Convolutions as machine code for their sizes: products with windows, nowhere copied whole.

A panel is a few lines of the result, or a part of a long one, for all filters. As in `tiles`, a
tile is a few rows (filters) of it by a few vectors (places), which stay in registers along the sum
over the points of a window; where a point lies, a table says. Vectors are read where the lines lie;
or, where lines fill vectors badly, from a copy of the panel's windows without gaps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pullback.compiled.ir.values import Val
from pullback.compiled.llvm.emit import Blocks, literal, vector_type
from pullback.compiled.llvm.windows import WindowsText
from pullback.compiled.plan.plan import Plan

__all__ = ["ConvolutionText"]

_PANEL = 192 * 1024  # bytes of the stack for a copy
# Terms that are added up one after the other. Of 4,608 positive ones, such a sum is wrong by 3.4e-6
# (float32); in parts, which are added up then, by 3.5e-7, as BLAS's and torch's are.
_TERMS = 256
_MOVE = 1.5  # cycles to load and store a vector, where two products take one


class _Piece(NamedTuple):
    """A vector of a panel: where it is read and written, its width and how much of it counts."""

    source: int
    target: int
    width: int
    there: int


class _Panel(NamedTuple):
    """So many lines, of so many columns."""

    lines: int
    columns: int

    def pieces(self, width: int, source: int, target: int) -> list[_Piece]:
        """Its vectors, line by line; lines lie `source` and `target` elements apart."""
        made = []
        for line in range(self.lines):
            for start in range(0, self.columns, width):
                there = min(width, self.columns - start)
                wide = 1 << (there - 1).bit_length()
                made.append(_Piece(line * source + start, line * target + start, wide, there))
        return made


class _Tile(NamedTuple):
    """The vectors of a tile; in a copy, points lie `lead` apart. It may be added to the result."""

    pieces: list[_Piece]
    lead: int | None
    adds: bool = False


class ConvolutionText(WindowsText):
    """Writes the function of a convolution; its units are panels of images."""

    def __init__(self, plan: Plan, name: str, v: Val, machine: Any, declared: set[str]) -> None:
        super().__init__(plan, name, v, machine, declared)
        self.filters = v.ins[2].shape[0]
        self.has_bias = len(v.ins) == 4
        self.widest = 4 if machine.vector_bytes == 64 else 2  # vectors of a tile, side by side
        read, copied = self._panel(copied=False), self._panel(copied=True)
        cheaper = self._cost(copied, copied=True) < self._cost(read, copied=False)
        self.copies = cheaper or self.windows.column > 1
        self.panel = copied if self.copies else read
        self.down = -(-self.windows.lines // self.panel.lines)
        self.across = -(-self.windows.columns // self.panel.columns)
        self.panels = self.down * self.across
        self.units = self.images * self.panels
        self.work = v.size * self.terms

    # Panels -----------------------------------------------------------------------------------

    def _panel(self, *, copied: bool) -> _Panel:
        """As many lines as fill the vectors of a tile best, or a part of a line."""
        lines, columns = self.windows.lines, self.windows.columns
        most = self.widest * self.width
        if columns > most:
            parts = -(-columns // most)
            return _Panel(1, -(-columns // (parts * self.width)) * self.width)
        fitting = [_Panel(n, columns) for n in range(1, lines + 1)]
        fitting = [one for one in fitting if self._vectors(one, copied=copied) <= self.widest]
        return min(fitting, key=lambda one: (self._cost(one, copied=copied), -one.lines))

    def _vectors(self, panel: _Panel, *, copied: bool) -> int:
        """Vectors of a row."""
        if copied:
            return -(-(panel.lines * panel.columns) // self.width)
        return panel.lines * -(-panel.columns // self.width)

    def _cost(self, panel: _Panel, *, copied: bool) -> float:
        """Cycles for a point of all windows of an image."""
        down, left = divmod(self.windows.lines, panel.lines)
        across = -(-self.windows.columns // panel.columns)
        total = 0.0
        for number, one in ((down, panel), (1, panel._replace(lines=left))):
            moves = self._vectors(one, copied=False) if copied else 0
            products = self._vectors(one, copied=copied) * self.filters
            total += number * across * (products / 2 + moves * _MOVE)
        return total

    @property
    def _last(self) -> _Panel | None:
        """The last panel of an image, or of a line, where it is smaller than the others."""
        lines = self.windows.lines % self.panel.lines
        columns = self.windows.columns % self.panel.columns
        if not lines and not columns:
            return None
        return _Panel(lines or self.panel.lines, columns or self.panel.columns)

    # Text -------------------------------------------------------------------------------------

    def texts(self) -> Iterator[str]:
        """The function, and all that it calls."""
        yield self.table_text()
        yield from self._panel_texts(f"{self.name}_panel", self.panel)
        if self._last is not None:
            yield from self._panel_texts(f"{self.name}_last", self._last)
        yield self.pad_text()
        em = Blocks()
        self.clear(em)
        first = em.t(f"udiv i64 %lo, {self.panels}")
        last = em.t(f"udiv i64 {em.t(f'add i64 %hi, {self.panels - 1}')}, {self.panels}")
        with em.loop(em.t(f"sub i64 {last}, {first}"), at_least_once=False) as number:
            image = em.t(f"add i64 {first}, {number}")
            self.pad(em, image, "1")
            start = em.t(f"mul i64 {image}, {self.panels}")
            lo = em.intrinsic("smax", ("%lo", start), "i64", 1)
            hi = em.intrinsic("smin", ("%hi", em.t(f"add i64 {start}, {self.panels}")), "i64", 1)
            c = em.at(self.element, "%c", em.t(f"mul i64 {image}, {self.filters * self.places}"))
            with em.loop(em.t(f"sub i64 {hi}, {lo}")) as panel:
                unit = em.t(f"add i64 {lo}, {panel}")
                self._call_panel(em, em.t(f"sub i64 {unit}, {start}"), c)
        yield self.whole("wb" if self.has_bias else "w", em)

    def _call_panel(self, em: Blocks, panel: str, c: str) -> None:
        e, w = self.element, self.windows
        line = em.t(f"udiv i64 {panel}, {self.across}")
        part = em.t(f"urem i64 {panel}, {self.across}")
        x = em.at(e, "%room", em.t(f"mul i64 {line}, {self.panel.lines * w.line}"))
        x = em.at(e, x, em.t(f"mul i64 {part}, {self.panel.columns * w.column}"))
        c = em.at(e, c, em.t(f"mul i64 {line}, {self.panel.lines * w.columns}"))
        c = em.at(e, c, em.t(f"mul i64 {part}, {self.panel.columns}"))
        function = f"@{self.name}_panel"
        if self._last is not None:
            along, count = (line, self.down) if self.across == 1 else (part, self.across)
            is_last = em.t(f"icmp eq i64 {along}, {count - 1}")
            function = em.t(f"select i1 {is_last}, ptr @{self.name}_last, ptr {function}")
        bias = "%b" if self.has_bias else "null"
        em.raw(f"  call void {function}(ptr {x}, ptr %w, ptr {bias}, ptr {c})")

    def _panel_texts(self, name: str, panel: _Panel) -> Iterator[str]:
        """All rows of a panel, for some terms of the sums at a time."""
        em = Blocks()
        lead = None
        pieces = panel.pieces(self.width, self.windows.line, self.windows.columns)
        most = _TERMS
        if self.copies:
            pieces = _Panel(1, panel.lines * panel.columns).pieces(self.width, 0, 0)
            lead = sum(piece.width for piece in pieces)
            most = min(most, _PANEL // (lead * self.size))
        times = -(-self.terms // most)
        step = -(-self.terms // times)
        if lead is not None:
            em.raw(f"  %panel = alloca [{step * lead + self.width} x {self.element}], align 64")
        for kind, count in (("", 1), ("_added", times - 1)):
            if not count:
                continue
            with em.loop(count) as turn:
                turn = em.t(f"add i64 {turn}, 1") if kind else turn
                first = em.t(f"mul i64 {turn}, {step}")
                left = em.t(f"sub i64 {self.terms}, {first}")
                terms = em.intrinsic("smin", (left, str(step)), "i64", 1)
                table = em.at("i64", self.table, first)
                if lead is not None:
                    self._copy(em, panel, lead, table, terms)
                tile = _Tile(pieces, lead, bool(kind))
                yield from self._rows_texts(em, name + kind, tile, table, first, terms)
        yield self.inner(name, "ptr %x, ptr %w, ptr %b, ptr %c", em)

    def _copy(self, em: Blocks, panel: _Panel, lead: int, table: str, terms: str) -> None:
        """The panel's windows without gaps, a row for each point."""
        e, w = self.element, self.width
        covered = (panel.lines - 1) * panel.columns + -(-panel.columns // w) * w
        with em.loop(terms) as k:
            point = em.t(f"load i64, ptr {em.at('i64', table, k)}")
            target = em.at(e, "%panel", em.t(f"mul i64 {k}, {lead}"))
            if covered < lead:  # numbers too small for the usual form would take long
                self.store(em, "zeroinitializer", target, lead - w, w)
            self.move(em, em.at(e, "%x", point), target, *panel)

    def _rows_texts(
        self, em: Blocks, name: str, tile: _Tile, table: str, first: str, terms: str
    ) -> Iterator[str]:
        """All filters of a panel, a tile at a time, for some terms of the sums."""
        e, x = self.element, "%x" if tile.lead is None else "%panel"
        rows = min(self.registers // len(tile.pieces), self.filters)
        left = self.filters % rows

        def call(row: str, kind: str) -> None:
            w = em.at(e, em.at(e, "%w", em.t(f"mul i64 {row}, {self.terms}")), first)
            c = em.at(e, "%c", em.t(f"mul i64 {row}, {self.places}"))
            b = em.at(e, "%b", row)
            em.raw(f"  call fastcc void @{name}_{kind}"
                   f"(ptr {w}, ptr {x}, ptr {b}, ptr {c}, ptr {table}, i64 {terms})")  # fmt: skip

        yield self._tile_text(f"{name}_tile", tile, rows)
        with em.loop(self.filters - rows + 1, rows) as row:
            call(row, "tile")
        if left:
            yield self._tile_text(f"{name}_rest", tile, left)
            call(str(self.filters - left), "rest")

    def _tile_text(self, name: str, tile: _Tile, rows: int) -> str:
        """The inner loop, along the points of a window."""
        em, e = Blocks(), self.element
        widest = max(piece.width for piece in tile.pieces)
        with em.carrying("%terms", self._starts(em, tile, rows)) as (k, sums, made):
            if tile.lead is None:
                x = em.at(e, "%x", em.t(f"load i64, ptr {em.at('i64', '%table', k)}"))
            else:
                x = em.at(e, "%x", em.t(f"mul i64 {k}, {tile.lead}"))
            w = em.at(e, "%w", k)
            vectors = [self.load(em, x, piece.source, piece.width) for piece in tile.pieces]
            for row in range(rows):
                spread = em.splat(self.load(em, w, row * self.terms, 1), e, widest)
                for piece, vector in zip(tile.pieces, vectors, strict=True):
                    factor = em.first(spread, e, widest, piece.width)
                    made.append(em.fma(factor, vector, sums[len(made)], e, piece.width))
        for number, total in enumerate(made):
            row, place = divmod(number, len(tile.pieces))
            piece = tile.pieces[place]
            total = em.first(total, e, piece.width, piece.there)
            target = row * self.places + piece.target
            if tile.adds:
                before = self.load(em, "%c", target, piece.there)
                total = em.binary("fadd", total, before, e, piece.there)
            self.store(em, total, "%c", target, piece.there)
        given = "ptr %w, ptr %x, ptr %b, ptr %c, ptr %table, i64 %terms"
        return self.inner(name, given, em, "fastcc ")

    def _starts(self, em: Blocks, tile: _Tile, rows: int) -> list[tuple[str, str]]:
        """What sums start from: the bias, or nothing."""
        e, starts = self.element, []
        for row in range(rows):
            bias = self.load(em, "%b", row, 1) if self.has_bias and not tile.adds else None
            for piece in tile.pieces:
                zero = "zeroinitializer" if piece.width > 1 else literal(0, e)
                start = zero if bias is None else em.splat(bias, e, piece.width)
                starts.append((vector_type(e, piece.width), start))
        return starts
