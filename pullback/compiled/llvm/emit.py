"""Writes LLVM text: one instruction a line, values as names with an element type and a width."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy

from pullback.compiled.ir.symbols import Symbolic

__all__ = ["ELEMENTS", "Blocks", "Emitter", "literal", "vector_type"]

ELEMENTS = {
    "f4": "float", "f8": "double", "b1": "i1", "i8": "i64", "i4": "i32", "i2": "i16", "i1": "i8",
    "u1": "i8", "h2": "i16", "w2": "i16", "c8": "i64", "c16": "i128",
}  # fmt: skip
_SUFFIX = {"float": "f32", "double": "f64", "i64": "i64", "i32": "i32"}


def literal(value: Any, e: str) -> str:
    """A number as LLVM writes it."""
    if isinstance(value, Symbolic):
        return value.word(real=e in ("float", "double"))
    if e in ("i64", "i32", "i16", "i8"):
        return str(int(value))
    if e == "i1":
        return "1" if value else "0"
    if value == "nan":
        value = float("nan")
    if e == "float":
        with numpy.errstate(over="ignore"):
            value = float(numpy.float32(value))
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def vector_type(e: str, w: int) -> str:
    """The type of `w` elements at once."""
    return e if w == 1 else f"<{w} x {e}>"


class Emitter:
    """Lines of one function; every method that computes returns the name of its result."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.declared: set[str] = set()

    def raw(self, line: str) -> None:
        """A line as it is."""
        self.lines.append(line)

    def t(self, text: str) -> str:
        """An instruction with a result."""
        self.count += 1
        name = f"%t{self.count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self) -> str:
        """A name for a block."""
        self.count += 1
        return f"L{self.count}"

    def number(self, value: Any, e: str, w: int) -> str:
        """A constant, the same in all elements."""
        text = literal(value, e)
        if isinstance(value, Symbolic):
            return self.splat(text, e, w)
        return text if w == 1 else f"splat ({e} {text})"

    def binary(self, op: str, a: str, b: str, e: str, w: int) -> str:
        """An instruction of two operands."""
        return self.t(f"{op} {vector_type(e, w)} {a}, {b}")

    def add(self, a: str, b: str, e: str, w: int) -> str:
        """Floating-point sum; may be joined with a product."""
        return self.binary("fadd contract", a, b, e, w)

    def sub(self, a: str, b: str, e: str, w: int) -> str:
        """Floating-point difference; may be joined with a product."""
        return self.binary("fsub contract", a, b, e, w)

    def mul(self, a: str, b: str, e: str, w: int) -> str:
        """Floating-point product; may be joined with a sum."""
        return self.binary("fmul contract", a, b, e, w)

    def div(self, a: str, b: str, e: str, w: int) -> str:
        """Floating-point quotient."""
        return self.binary("fdiv", a, b, e, w)

    def neg(self, a: str, e: str, w: int) -> str:
        """The other sign."""
        return self.t(f"fneg {vector_type(e, w)} {a}")

    def intrinsic(self, name: str, args: Any, e: str, w: int) -> str:
        """One of LLVM's own functions, of operands of one type."""
        kind = vector_type(e, w)
        suffix = _SUFFIX[e] if w == 1 else f"v{w}{_SUFFIX[e]}"
        function = f"@llvm.{name}.{suffix}"
        self.declared.add(f"declare {kind} {function}({', '.join([kind] * len(args))})")
        given = ", ".join(f"{kind} {one}" for one in args)
        return self.t(f"call {kind} {function}({given})")

    def fma(self, a: str, b: str, c: str, e: str, w: int) -> str:
        """A * b + c, rounded once."""
        return self.intrinsic("fma", (a, b, c), e, w)

    def abs(self, x: str, e: str, w: int) -> str:
        """Without its sign."""
        return self.intrinsic("fabs", (x,), e, w)

    def compare(self, how: str, a: str, b: str, e: str, w: int) -> str:
        """A truth value."""
        word = "fcmp" if e in ("float", "double") else "icmp"
        return self.t(f"{word} {how} {vector_type(e, w)} {a}, {b}")

    def select(self, mask: str, a: str, b: str, e: str, w: int) -> str:
        """`a` where the mask holds, else `b`."""
        kind = vector_type(e, w)
        return self.t(f"select {vector_type('i1', w)} {mask}, {kind} {a}, {kind} {b}")

    def bits(self, a: str, e: str, to: str, w: int) -> str:
        """The same bits as another type."""
        return self.t(f"bitcast {vector_type(e, w)} {a} to {vector_type(to, w)}")

    def splat(self, x: str, e: str, w: int) -> str:
        """One element in all places."""
        if w == 1:
            return x
        kind = vector_type(e, w)
        first = self.t(f"insertelement {kind} poison, {e} {x}, i32 0")
        return self.t(f"shufflevector {kind} {first}, {kind} poison, <{w} x i32> zeroinitializer")

    def scaled(self, x: str, n: str, e: str, w: int) -> str:
        """X * 2^n by AVX-512's instruction; `n` is a whole number, in the same type."""
        letter, most = ("s", 16) if e == "float" else ("d", 8)
        kind, mask = vector_type(e, most), f"i{most}"
        function = f"@llvm.x86.avx512.mask.scalef.p{letter}.512"
        self.declared.add(f"declare {kind} {function}({kind}, {kind}, {kind}, {mask}, i32)")
        made = []
        for start in range(0, w, most):
            a, b = (self._part(one, e, w, start, most) for one in (x, n))
            made.append(self.t(f"call {kind} {function}({kind} {a}, {kind} {b}, "
                               f"{kind} zeroinitializer, {mask} -1, i32 4)"))  # fmt: skip
        while len(made) > 1:
            pairs = zip(made[::2], made[1::2], strict=True)
            kind, most = vector_type(e, most), 2 * most
            places = ", ".join(f"i32 {k}" for k in range(most))
            made = [self.t(f"shufflevector {kind} {a}, {kind} {b}, <{most} x i32> <{places}>")
                    for a, b in pairs]  # fmt: skip
        return made[0]

    def poly(self, x: str, coefficients: Any, e: str, w: int) -> str:
        """A polynomial, lowest first, by Horner's rule."""
        r = self.number(coefficients[-1], e, w)
        for c in reversed(coefficients[:-1]):
            r = self.fma(r, x, self.number(c, e, w), e, w)
        return r

    def poly2(self, x: str, coefficients: Any, e: str, w: int) -> str:
        """The same by two chains in x * x: half the latency."""
        if len(coefficients) < 5:
            return self.poly(x, coefficients, e, w)
        x2 = self.mul(x, x, e, w)
        even = self.poly(x2, coefficients[0::2], e, w)
        odd = self.poly(x2, coefficients[1::2], e, w)
        return self.fma(odd, x, even, e, w)

    def at(self, e: str, p: str, offset: Any) -> str:
        """A place some elements further on."""
        return p if offset in (0, "0") else self.t(f"getelementptr {e}, ptr {p}, i64 {offset}")

    def first(self, x: str, e: str, w: int, count: int) -> str:
        """The first elements of a vector."""
        return self._part(x, e, w, 0, count)

    # Elements of a vector taken together ----------------------------------------------------------

    def reduce(self, kind: str, v: str, e: str, w: int) -> str:
        """All elements of a vector, as a tree of halves, so that the order is fixed."""
        n = w
        while n > 1 and n % 2 == 0:
            half = n // 2
            low, high = (self._part(v, e, n, start, half) for start in (0, half))
            v = self.combine(kind, low, high, e, half)
            n = half
        if n == 1:
            return v
        kind_of = vector_type(e, n)
        r = self.t(f"extractelement {kind_of} {v}, i32 0")
        for i in range(1, n):
            one = self.t(f"extractelement {kind_of} {v}, i32 {i}")
            r = self.combine(kind, r, one, e, 1)
        return r

    def sums(self, vectors: list[str], e: str, w: int) -> str:
        """The sum of each vector's elements, side by side: pairs become one, neighbours added.

        As many as a power of two, at most `w`; the order is fixed.
        """
        near = 1
        while len(vectors) > 1:
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [self._neighbours_added(a, b, near, e, w) for a, b in pairs]
            near *= 2
        made = vectors[0]
        while w > near:
            w //= 2
            low, high = (self._part(made, e, 2 * w, start, w) for start in (0, w))
            made = self.binary("fadd", low, high, e, w)
        return made

    def _neighbours_added(self, a: str, b: str, near: int, e: str, w: int) -> str:
        """Every other `near` elements of two vectors in turn, each plus those behind them."""
        kind, parts = vector_type(e, w), []
        for shift in (0, near):
            places = [k // (2 * near) * 2 * near + k % near + shift for k in range(w)]
            places = [place + k // near % 2 * w for k, place in enumerate(places)]
            listed = ", ".join(f"i32 {place}" for place in places)
            parts.append(self.t(f"shufflevector {kind} {a}, {kind} {b}, <{w} x i32> <{listed}>"))
        return self.binary("fadd", parts[0], parts[1], e, w)

    def _part(self, v: str, e: str, n: int, start: int, count: int) -> str:
        """Some elements of a vector of `n`."""
        kind = vector_type(e, n)
        if n == count:
            return v
        if count == 1:
            return self.t(f"extractelement {kind} {v}, i32 {start}")
        places = ", ".join(f"i32 {start + i}" for i in range(count))
        return self.t(f"shufflevector {kind} {v}, {kind} poison, <{count} x i32> <{places}>")

    def combine(self, kind: str, a: str, b: str, e: str, w: int) -> str:
        """The sum, or the larger one, of two; NaN wins."""
        floating = e in ("float", "double")
        if kind == "sum":
            return self.binary("fadd" if floating else "add", a, b, e, w)
        if not floating:
            return self.select(self.compare("sgt", b, a, e, w), b, a, e, w)
        larger = self.compare("ugt" if kind == "max" else "ult", b, a, e, w)
        known = self.compare("ord", a, a, e, w)
        take = self.binary("and", larger, known, "i1", w)
        return self.select(take, b, a, e, w)

    def exact_sum(self, total: str, lost: str, x: str, e: str, w: int) -> tuple[str, str]:
        """`total + x`, and `lost` with what that rounded off (Knuth's two-sum)."""
        made = self.binary("fadd", total, x, e, w)
        taken = self.binary("fsub", made, total, e, w)
        kept = self.binary("fsub", made, taken, e, w)
        first = self.binary("fsub", total, kept, e, w)
        second = self.binary("fsub", x, taken, e, w)
        off = self.binary("fadd", first, second, e, w)
        return made, self.binary("fadd", lost, off, e, w)

    def with_lost(self, total: str, lost: str, e: str, w: int) -> str:
        """A sum with what was rounded off; of what is infinite, that is not a number."""
        known = self.compare("ord", lost, lost, e, w)
        lost = self.select(known, lost, self.number(0, e, w), e, w)
        return self.binary("fadd", total, lost, e, w)


class Blocks(Emitter):
    """Lines of a function with loops and branches in them."""

    def __init__(self) -> None:
        super().__init__()
        self.block = "entry"  # which lines are added to

    @contextmanager
    def loop(self, end: Any, step: int = 1, *, at_least_once: bool = True) -> Iterator[str]:
        """Lines that are run for 0, step, ... below `end`; gives the name of that number."""
        label = self.label()
        before = self.block
        if at_least_once:
            self.raw(f"  br label %{label}")
        else:
            some = self.t(f"icmp slt i64 0, {end}")
            self.raw(f"  br i1 {some}, label %{label}, label %{label}.end")
        self.raw(f"{label}:")
        place = len(self.lines)
        self.raw("")
        self.block = label
        yield f"%{label}.i"
        self.raw(f"  %{label}.n = add i64 %{label}.i, {step}")
        self.raw(f"  %{label}.m = icmp slt i64 %{label}.n, {end}")
        self.raw(f"  br i1 %{label}.m, label %{label}, label %{label}.end")
        self.lines[place] = (
            f"  %{label}.i = phi i64 [ 0, %{before} ], [ %{label}.n, %{self.block} ]"
        )
        self.raw(f"{label}.end:")
        self.block = f"{label}.end"

    @contextmanager
    def carrying(
        self, end: Any, starts: list[tuple[str, str]], step: int = 1
    ) -> Iterator[tuple[str, list[str], list[str]]]:
        """A loop whose turns hand values on, which start as (type, value).

        Gives the number, the names of the values, and a list for what the next turn gets; behind
        the loop, that is what the last turn gave.
        """
        before = self.block
        with self.loop(end, step) as number:
            label, place = self.block, len(self.lines)
            self.lines += [""] * len(starts)
            names = [f"%{label}.{k}" for k in range(len(starts))]
            made: list[str] = []
            yield number, names, made
            for k, (kind, start) in enumerate(starts):
                others = f"[ {start}, %{before} ], [ {made[k]}, %{self.block} ]"
                self.lines[place + k] = f"  {names[k]} = phi {kind} {others}"

    @contextmanager
    def only_if(self, condition: str) -> Iterator[None]:
        """Lines that are run where a truth value holds."""
        label = self.label()
        self.raw(f"  br i1 {condition}, label %{label}, label %{label}.end")
        self.raw(f"{label}:")
        self.block = label
        yield
        self.raw(f"  br label %{label}.end")
        self.raw(f"{label}.end:")
        self.block = f"{label}.end"
