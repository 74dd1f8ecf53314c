"""Formulas as lines of NumPy's functions over few registers, for kernels to be written from.

Values are put in an order that needs few registers, and those are handed out by a linear scan: what
dies is written over. The lines have two forms: with registers that are made when first needed
(`v0 = exp(x)`, then `add(v0, c0, v0)`), or given by the caller.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import F32, F64
from pullback.operators.arrays.direct import DIRECT
from pullback.operators.arrays.erf import erf, erfc
from pullback.operators.arrays.scipy_special import scipy_special
from pullback.operators.formula.formulas import expanded
from pullback.operators.formula.language import (
    BOOLEAN,
    Expr,
    const,
    is_number,
    make,
    number_of,
    order,
    rebuilt,
)
from pullback.operators.formula.words import WORDS

__all__ = ["Lines", "body_of"]

_BITS = {F32: numpy.dtype("u4"), F64: numpy.dtype("u8")}
_UFUNCS = {word: one.numpy for word, one in WORDS.items() if one.numpy}
_UFUNCS |= {"square": "square", "clip": "clip", "conj": "conjugate"}
_SPECIAL = frozenset({"erf", "erfc", "ndtr"})  # which NumPy has not
# What each form has as one word: logaddexp is a slow loop, but a single call.
_KNOWN = {
    "few": frozenset({*_UFUNCS, *_SPECIAL}),
    "many": frozenset({*_UFUNCS, *_SPECIAL} - {"logaddexp"}),
}


def body_of(root: Expr, form: str, dtype: str) -> Expr:
    """The expression in words of NumPy, for "few" elements or "many"."""
    known = _KNOWN[form]
    made = expanded(root, form, dtype, known)
    # SciPy is asked for by those alone that it has a word for: its import takes 0.2 s.
    if any(one.word == "ndtr" for one in order(made)) and not scipy_special(numpy):
        made = expanded(root, form, dtype, known - {"ndtr"})
    return _for_numpy(made)


# What NumPy is quicker at -------------------------------------------------------------------------


def _for_numpy(root: Expr) -> Expr:
    """The same value in words that NumPy is quick at."""

    def change(one: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if one.word == "where":
            return _extreme(*args) or _masked(*args)
        if one.word in ("maximum", "minimum"):
            return _clipped(one.word, *args)
        if one.word == "powi":
            return _products(args[0], one.note)
        if one.word == "sigmoid":
            return make("recip", make("add", const(1.0), make("exp", make("neg", args[0]))))
        if one.word == "rsqrt":
            return make("recip", make("sqrt", args[0]))
        return None

    return rebuilt(root, change)


def _clipped(word: str, a: Expr, b: Expr) -> Expr | None:
    """Between two numbers, at once: `minimum(maximum(x, low), high)`, either way round."""
    inner_word = "minimum" if word == "maximum" else "maximum"
    for inner, limit in ((a, b), (b, a)):
        outer = number_of(limit)
        if inner.word != inner_word or outer is None:
            continue
        for x, other in (inner.args, inner.args[::-1]):
            bound = number_of(other)
            if bound is None or number_of(x) is not None:
                continue
            low, high = (limit, other) if word == "maximum" else (other, limit)
            if min(outer, bound) == number_of(low):  # the order does not matter then
                return make("clip", x, low, high)
    return None


def _extreme(c: Expr, yes: Expr, no: Expr) -> Expr | None:
    """`where(a <= b, b, a)` is a maximum; NaN, for which it is `a`, stays NaN."""
    if c.word not in ("lt", "le", "gt", "ge"):
        return None
    a, b = c.args if c.word in ("lt", "le") else c.args[::-1]  # a is below b where c holds
    if number_of(b) is not None and yes is b and (no is a or _within(no, a, b, "minimum")):
        return _clipped("maximum", no, b) or make("maximum", no, b)
    if number_of(a) is not None and yes is a and (no is b or _within(no, b, a, "maximum")):
        return _clipped("minimum", no, a) or make("minimum", no, a)
    if number_of(a) == 0 and yes is b and no.word == "mul":  # x, or less of it below 0
        for x, factor in (no.args, no.args[::-1]):
            share = number_of(factor)
            if x is b and share is not None and 0 < share <= 1:
                return make("maximum", b, no)
    return None


def _masked(c: Expr, yes: Expr, no: Expr) -> Expr | None:
    """A choice of 0 last, which is one product of bits; of 1 or less, a truth as a number."""
    if is_number(yes, 0) and yes.note[1] > 0 and number_of(no) is None:
        return make("where", make("not", c), no, yes)
    for condition, one, other in ((c, yes, no), (make("not", c), no, yes)):
        share = number_of(other)
        if is_number(one, 1) and share is not None and 0 <= share < 1:
            truth = make("cast", condition)
            return make("maximum", truth, other) if share else truth
    return None


def _within(one: Expr, a: Expr, limit: Expr, word: str) -> bool:
    """Whether `one` is `a` kept on the other side of another, farther limit."""
    if one.word != word or all(x is not a for x in one.args):
        return False
    other = number_of(next(x for x in one.args if x is not a))
    mine = number_of(limit)
    if other is None or mine is None:
        return False
    return other >= mine if word == "minimum" else other <= mine


def _products(x: Expr, n: int) -> Expr:
    if n < 0:
        return make("recip", _products(x, -n))
    if n == 1:
        return x
    half = _products(x, n // 2)
    squared = make("mul", half, half)
    return make("mul", squared, x) if n % 2 else squared


# Registers ----------------------------------------------------------------------------------------


def _scheduled(root: Expr) -> list[Expr]:
    """Operands first, the one that needs more registers before the other."""
    need: dict[Expr, int] = {}
    for one in order(root):
        inner = sorted((need[a] for a in one.args if need[a]), reverse=True)
        leaf = one.word in ("input", "const")
        need[one] = 0 if leaf else max([1, *[n + i for i, n in enumerate(inner)]])
    seen: dict[Expr, None] = {}

    def visit(one: Expr) -> None:
        if one not in seen:
            for arg in sorted(one.args, key=lambda a: -need[a]):
                visit(arg)
            seen[one] = None

    visit(root)
    return [one for one in seen if one.word not in ("input", "const")]


class Lines:
    """The lines of one expression; `scope` is what they name besides inputs and registers."""

    def __init__(self, root: Expr, inputs: dict[str, str], dtype: Any, prefix: str) -> None:
        self.dtype, self.bits, self.prefix = dtype, _BITS.get(dtype), prefix
        self._inputs = inputs  # what the lines call them
        self.scope: dict[str, Any] = {"empty": numpy.empty, "dtype": dtype, "bits": self.bits}
        self.steps: list[tuple[str, Expr, list[str]]] = []  # register, value, operands
        self.kinds: dict[str, str] = {}  # register -> "v" (values) or "b" (truths)
        self._numbers: dict[Expr, str] = {}
        places: dict[Expr, str] = {}
        steps = _scheduled(root)
        last = {arg: i for i, one in enumerate(steps) for arg in one.args}
        free: dict[str, list[str]] = {"v": [], "b": []}
        for i, one in enumerate(steps):
            names = [self._operand(arg, places) for arg in one.args]
            dying = [a for a in dict.fromkeys(one.args) if a in places and last[a] == i]
            # A choice reads its last operand after its first write.
            kept = one.args[2] if one.word == "where" else None
            for a in dying:
                if a is not kept:
                    free[self.kinds[places[a]]].append(places[a])
            places[one] = self._register("b" if one.word in BOOLEAN else "v", free)
            if kept is not None and any(a is kept for a in dying):
                free[self.kinds[places[kept]]].append(places[kept])
            self.steps.append((places[one], one, names))
        self.result = places[root]

    def _register(self, kind: str, free: dict[str, list[str]]) -> str:
        if free[kind]:
            return free[kind].pop()
        place = f"{kind}{sum(one == kind for one in self.kinds.values())}"
        self.kinds[place] = kind
        return place

    def _operand(self, one: Expr, places: dict[Expr, str]) -> str:
        if one.word == "input":
            return self._inputs[one.note]
        if one.word != "const":
            return places[one]
        if one not in self._numbers:
            name = self._numbers[one] = f"{self.prefix}{len(self._numbers)}"
            with numpy.errstate(over="ignore"):
                number = numpy.array(number_of(one), self.dtype)
            number.flags.writeable = False
            self.scope[name] = number
        return self._numbers[one]

    def _function(self, word: str) -> str:
        name = word if word in _SPECIAL else _UFUNCS[word]
        self.scope[name] = _function_of(word)
        return name

    def made(self) -> list[str]:
        """Lines that make registers when they first need them; choices by NumPy's own."""
        known: set[str] = set()
        lines = []
        for place, one, names in self.steps:
            lines += self._line(place, one, names, is_new=place not in known, by_bits=False)
            known.add(place)
        return lines

    def each_new(self) -> tuple[list[str], str]:
        """Lines that make an array each, which broadcast; and the name of the result."""
        names: dict[Expr, str] = {}
        lines = []
        for number, (_, one, given) in enumerate(self.steps):
            known = [names.get(arg, name) for arg, name in zip(one.args, given, strict=True)]
            names[one] = f"n{number}"
            if one.word == "cast":
                lines.append(f"n{number} = {known[0]}.astype(dtype)")
            else:
                lines.append(f"n{number} = {self._function(one.word)}({', '.join(known)})")
        return lines, f"n{len(lines) - 1}"

    def into(self, *, fresh: bool) -> list[str]:
        """Lines that go into registers as given, or make them; choices at one speed."""
        known: set[str] = set() if fresh else set(self.kinds)
        lines = []
        for place, one, names in self.steps:
            lines += self._line(place, one, names, is_new=place not in known, by_bits=True)
            known.add(place)
        return lines

    def _line(
        self, place: str, one: Expr, names: list[str], *, is_new: bool, by_bits: bool
    ) -> list[str]:
        given = ", ".join(names)
        if one.word == "where":
            if not by_bits:
                return [f"{place} = {self._function('where')}({given})"]
            made = [f"{place} = empty({self._shaped(names)}.shape, dtype)"] if is_new else []
            return [*made, *self._chosen(place, names, one)]
        if one.word == "cast":
            self.scope["copyto"] = DIRECT["copyto"]
            return [f"{place} = {given}.astype(dtype)" if is_new else f"copyto({place}, {given})"]
        function = self._function(one.word)
        if is_new:
            return [f"{place} = {function}({given})"]
        # NumPy warns of a third operand of these two without its name, and takes a microsecond.
        target = f"out={place}" if one.word in ("maximum", "minimum", "clip") else place
        return [f"{function}({given}, {target})"]

    def _shaped(self, names: list[str]) -> str:
        return next(name for name in names if name not in self._numbers.values())

    def _chosen(self, place: str, names: list[str], one: Expr) -> list[str]:
        """A choice by products and differences of bits, at one speed for all masks."""
        condition, yes, no = names
        if self.bits is None:
            self.scope["copyto"] = DIRECT["copyto"]
            return [f"copyto({place}, {no})", f"copyto({place}, {yes}, where={condition})"]
        for name in ("multiply", "bitwise_xor", "logical_not"):
            self.scope[name] = getattr(numpy, name)
        into = f"{place}.view(bits)"
        if yes in self._numbers.values() and no in self._numbers.values():
            apart = self.scope[yes].view(self.bits) ^ self.scope[no].view(self.bits)
            name = f"{yes}_{no}"
            self.scope[name] = apart
            lines = [f"multiply({condition}, {name}, {into})"]
            if self.scope[no].view(self.bits):
                lines.append(f"bitwise_xor({into}, {no}.view(bits), {into})")
            return lines
        if no in self._numbers.values() and not self.scope[no].view(self.bits):
            return [f"multiply({yes}.view(bits), {condition}, {into})"]
        if yes in self._numbers.values() and not self.scope[yes].view(self.bits):
            return [f"multiply({no}.view(bits), logical_not({condition}), {into})"]
        return [
            f"bitwise_xor({yes}.view(bits), {no}.view(bits), {into})",
            f"multiply({into}, {condition}, {into})",
            f"bitwise_xor({into}, {no}.view(bits), {into})",
        ]


def _function_of(word: str) -> Any:
    if word in _OWN:
        return _OWN[word]
    if word == "ndtr":
        return scipy_special(numpy).ndtr
    return DIRECT.get(_UFUNCS[word]) or getattr(numpy, _UFUNCS[word])


def _as_ufunc(function: Any) -> Any:
    def made(x: Any, out: Any = None) -> Any:
        if out is None:
            return function(numpy, x)
        out[...] = function(numpy, x)
        return out

    return made


_OWN = {"erf": _as_ufunc(erf), "erfc": _as_ufunc(erfc)}  # SciPy's, or fits
