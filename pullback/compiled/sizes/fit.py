"""A number of a captured program as an expression of the sizes that vary.

The same function captured at several sizes gives the same program with other numbers in it. Each
number that differs is a product of sizes, times a whole number, plus another; or, where it is no
whole number, a number divided by such a product. Sizes of values that are others than those of the
arguments (`s0 + -1`, of a slice) may stand in products as well, squares among them. What fits
neither is not generalised.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, combinations_with_replacement
from typing import Any, NamedTuple

from pullback.core.writer import define_once

__all__ = ["NUMBERS", "UNKNOWN", "Fit", "NoFit", "evaluator", "mentions_numbers"]

_MOST_SIZES = 4  # sizes in one product
_PROBES = 6  # at which expressions are compared that agree at the points
_MOST_DERIVED = 4  # sizes that are sums, whose products with others are tried
_PARTS = (2, 3, 4, 5, 6, 8, 16, 32)  # what a size may be divided by, rounded down
_SUM = re.compile(r"\((\w+) \+ (-?\d+)\)")
NUMBERS = "f"  # what names of numbers begin with that are no sizes
_NAMED = re.compile(rf"\b{NUMBERS}\d+\b")
UNKNOWN = "unknown"  # what a draft has in place of an expression that it does not find


def mentions_numbers(text: str) -> bool:
    """Whether an expression has a number in it that is no size."""
    return _NAMED.search(text) is not None


def _as_is(number: Any) -> Any:
    return number


class _Product(NamedTuple):
    """A product of sizes: how it is written, what it was at the points, and the sizes in it."""

    text: str
    values: list[int]
    names: frozenset[str]
    factors: int


class NoFit(Exception):  # noqa: N818 (no error: such a call is captured for its sizes alone)
    """A number that is no simple expression of the sizes."""


class Fit:
    """Finds expressions from what numbers were at several points.

    A size divided and rounded down is one only where the points leave no doubt which.
    """

    def __init__(
        self,
        points: Sequence[dict[str, int]],
        *,
        draft: bool = False,
        certain: bool = False,
        computed: dict[str, float] | None = None,
    ) -> None:
        """With `draft`, what is not found is `UNKNOWN` and no error.

        `computed`: real numbers that the function computed at the last point, by expression.

        With `certain`, what may as well be an expression of other sizes is not found: two that
        moved alike at the points need not do so later.
        """
        self.points, self.draft, self.certain = list(points), draft, certain
        self.computed = {
            text: value for text, value in (computed or {}).items() if mentions_numbers(text)
        }
        self.products = list(self._products())
        self._derived: dict[str, _Product] = {}  # sizes of values that are sums: s0 + -1
        self._of_derived: list[_Product] = []
        self._known: dict[tuple[Any, ...], str] = {}
        self.rounds = False  # whether some size divided and rounded was told from the points alone

    def _products(self) -> Iterator[_Product]:
        # Of numbers that are no sizes only what was computed with them is known: at few points an
        # expression cannot be told from its absolute value, say.
        names = [one for one in self.points[0] if not (self.certain and mentions_numbers(one))]
        squares = [(name, name) for name in names]  # of a square matrix of a size
        chosen = [
            one
            for count in range(1, min(len(names), _MOST_SIZES) + 1)
            for one in combinations(names, count)
        ]
        for some in (*chosen, *squares):
            values = [math.prod(point[name] for name in some) for point in self.points]
            yield _Product(" * ".join(some), values, frozenset(some), len(some))

    def learn(self, text: str) -> None:
        """A size of a value: products with it are tried from now on, where it is a sum of one."""
        if text in self._derived or len(self._derived) >= _MOST_DERIVED or text == UNKNOWN:
            return
        found = _SUM.fullmatch(text)
        if found is None:
            return
        name, rest = found.group(1), int(found.group(2))
        values = [point[name] + rest for point in self.points]
        self._derived[text] = _Product(text, values, frozenset({name}), 1)
        singles = [one for one in self.products if one.factors == 1]
        self._of_derived = [
            product
            for count in range(1, _MOST_SIZES + 1)
            for some in combinations_with_replacement([*self._derived.values(), *singles], count)
            if (product := _joined(some)).text not in {one.text for one in self.products}
        ]
        self._known = {key: one for key, one in self._known.items() if one != UNKNOWN}

    def text(
        self, numbers: Sequence[Any], guess: str | None = None, kind: Callable[[Any], Any] = _as_is
    ) -> str:
        """The expression of a number that was `numbers` at the points; `guess` where it is one.

        `kind` rounds a number as the dtype does that it has in the program.
        """
        if guess is not None and self._holds(guess, numbers, kind):
            return guess
        key = tuple(numbers)
        known = self._known.get(key)
        if known is None:
            known = self._remembered(key, kind) or self._found(key, kind)
            self._known[key] = known
        return known

    def _remembered(self, numbers: tuple[Any, ...], kind: Callable[[Any], Any]) -> str | None:
        """The expression of a number that the function computed, and something rounded."""
        last = numbers[-1]
        found = [
            text
            for text, value in self.computed.items()
            if kind(value) == last and self._holds(text, numbers, kind)
        ]
        if len(found) > 1:
            self._check_same(found)
        return found[0] if found else None

    def _check_same(self, texts: list[str]) -> None:
        """Refuse expressions that agree at the points alone: `f0` and `abs(f0)`, say."""
        names = list(self.points[0])
        values = evaluator(names, texts)
        for turn in range(_PROBES):
            signs = (-1) ** turn * (turn + 0.37)
            given = [
                one * signs if one.__class__ is float else one + 3 * turn
                for one in (self.points[-1][name] for name in names)
            ]
            try:
                made = values(*given)
            except ArithmeticError:
                continue
            if any(one != made[0] for one in made[1:]):
                raise NoFit(f"a number of the program may be {texts[0]} or {texts[1]}")

    def _holds(self, text: str, numbers: Sequence[Any], kind: Callable[[Any], Any]) -> bool:
        values = evaluator(list(self.points[0]), [text])
        pairs = zip(self.points, numbers, strict=True)
        try:
            return all(kind(values(**point)[0]) == number for point, number in pairs)
        except (ArithmeticError, NameError, TypeError):  # of a negative number: a complex one
            return False

    def _found(self, numbers: tuple[Any, ...], kind: Callable[[Any], Any]) -> str:
        whole = all(isinstance(one, int) for one in numbers)
        way = _line if whole else _fraction
        by_names: dict[frozenset[str], str] = {}  # of the same sizes, the simplest
        for product in self.products:
            made = way(product.text, product.values, numbers, kind)
            if made is not None:
                by_names.setdefault(product.names, made)
        for product in () if by_names else self._of_derived:
            made = (_multiple if whole else _fraction)(product.text, product.values, numbers, kind)
            if made is not None:
                by_names.setdefault(product.names, made)
        found = list(by_names.values())
        if found and not self.certain:
            return found[0]
        if whole and not found:
            found = self._parts(numbers)
            self.rounds = self.rounds or len(found) == 1
        if len(found) == 1:
            return found[0]
        if self.draft:
            return UNKNOWN
        why = f"it may be {found[0]} or {found[1]}" if found else "no simple expression of them"
        raise NoFit(
            f"a number of the program is {', '.join(map(str, numbers))} at sizes "
            f"{', '.join(str(tuple(point.values())) for point in self.points)}: {why}"
        )

    def _parts(self, numbers: tuple[int, ...]) -> list[str]:
        """What a number may be, of single sizes or else of products of two, and so on."""
        for times in range(_MOST_SIZES):
            products = [one for one in self.products if one.factors == times + 1]
            found = [one for some in products for one in _parts(some.text, some.values, numbers)]
            if found:
                return found
        return []


def _joined(some: Sequence[_Product]) -> _Product:
    """The product of sizes."""
    values = [math.prod(found) for found in zip(*[one.values for one in some], strict=True)]
    names = frozenset().union(*[one.names for one in some])
    return _Product(" * ".join(one.text for one in some), values, names, len(some))


def _multiple(text: str, sizes: list[int], numbers: tuple[int, ...], kind: Any) -> str | None:
    """`factor * product`: less is chosen than for a line, since there are many products."""
    if not sizes[0]:
        return None
    factor, left = divmod(numbers[0], sizes[0])
    if left or any(factor * s != n for s, n in zip(sizes, numbers, strict=True)):
        return None
    return f"({text})" if factor == 1 else f"({factor} * {text})"


def _parts(text: str, sizes: list[int], numbers: tuple[int, ...]) -> list[str]:
    """All that a size divided and rounded down may be."""
    if not all(isinstance(size, int) for size in sizes):  # but factors
        return []
    pairs = list(zip(sizes, numbers, strict=True))
    found = [
        (rest, part)
        for part in _PARTS
        for rest in range(numbers[0] * part - sizes[0], (numbers[0] + 1) * part - sizes[0])
        if all((size + rest) // part == number for size, number in pairs)
    ]
    return [
        f"(({text} + {rest}) // {part})" if rest else f"({text} // {part})" for rest, part in found
    ]


def _line(text: str, sizes: list[int], numbers: tuple[int, ...], kind: Any) -> str | None:
    """`factor * product + rest`, if that is what the numbers are."""
    if not all(isinstance(size, int) for size in sizes):
        return None
    first = next((n for n, size in enumerate(sizes) if size != sizes[0]), None)
    if first is None:
        return None
    factor, left = divmod(numbers[first] - numbers[0], sizes[first] - sizes[0])
    rest = numbers[0] - factor * sizes[0]
    if left or any(factor * s + rest != n for s, n in zip(sizes, numbers, strict=True)):
        return None
    made = text if factor == 1 else f"{factor} * {text}"
    made = f"{made} + {rest}" if rest else made
    return made if made.isidentifier() else f"({made})"


def _fraction(
    text: str, sizes: list[int], numbers: tuple[float, ...], kind: Callable[[Any], Any]
) -> str | None:
    """A number that is not whole, in the very same bits."""
    for write in _fractions(text, sizes, numbers):
        try:
            one = write()
            values = eval(f"lambda size: {one.replace(text, 'size')}")
            if all(kind(values(s)) == n for s, n in zip(sizes, numbers, strict=True)):
                return one
        except (ArithmeticError, ValueError, NameError, TypeError):  # no number, or an endless one
            continue
    return None


def _fractions(
    text: str, sizes: list[int], numbers: tuple[float, ...]
) -> Iterator[Callable[[], str]]:
    """What may be the expression, told from one or two of the points."""
    # A factor of a backward pass, which stands among the sizes there, may be 0 in the pass itself.
    at = next((n for n, one in enumerate(sizes) if one), 0)
    v, size = numbers[at], sizes[at]
    yield lambda: f"({text})"
    yield lambda: f"({round(v * size)} / ({text}))"
    yield lambda: f"({v * size!r} / ({text}))"
    yield lambda: f"({v / size!r} * ({text}))"
    if v > 1:  # n / (n - 1), the correction of a variance
        yield lambda: _corrected(text, round(v / (v - 1) / size))
    other = next((n for n, one in enumerate(sizes) if one != size), None)
    if other is not None and v != numbers[other]:
        yield lambda: _over_line(text, (size, sizes[other]), (v, numbers[other]))
    if v > 0:
        yield lambda: f"(({round(v * v / size)} * {text}) ** 0.5)"
        yield lambda: f"(1 / ({round(1 / (v * v) / size)} * {text}) ** 0.5)"


def _corrected(text: str, n: int) -> str:
    return f"({n} * {text} / ({n} * {text} - 1))"


def _over_line(text: str, sizes: tuple[int, int], numbers: tuple[float, float]) -> str:
    """One number over a line of the size."""
    slope = (1 / numbers[1] - 1 / numbers[0]) / (sizes[1] - sizes[0])
    start = 1 / numbers[0] - slope * sizes[0]
    return f"({round(-1 / start)} / ({round(-slope / start)} * {text} - 1))"


def evaluator(names: Sequence[str], texts: Sequence[str]) -> Callable[..., tuple[Any, ...]]:
    """A function of the sizes that gives all expressions."""
    listed = "".join(f"{text}, " for text in texts)
    text = f"def values({', '.join(names)}):\n    return ({listed})"
    made: Callable[..., tuple[Any, ...]] = define_once(text, {}, "sizes", "values")
    return made
