"""Numbers that stand for what a table will hold at run time: sizes that vary, and what follows.

A program written with them serves every call for which the decisions come out alike that were made
while it was written: each comparison that the bounds of sizes do not settle is noted. Whole numbers
are polynomials, so that equal expressions are equal; what is rounded down is a name of its own.
They are no ints on purpose: what would take the number out of one unseen (`range`, an index) raises
`NotSymbolic`, and the program is written for its sizes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

__all__ = [
    *("NotSymbolic", "Symbol", "Symbolic", "SymbolicArray", "SymbolicFloat", "Symbols", "moves"),
    "sample",
]

Terms = dict[tuple[str, ...], int]  # names of a product -> its factor


class NotSymbolic(Exception):  # noqa: N818 (no error: the program is written for its sizes alone)
    """Something needs to know a number that varies."""


class Symbols:
    """What varies, with the smallest that it can be; what was decided; and the words of a table."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}  # of names, now
        self.least: dict[str, int] = {}
        self.decisions: dict[str, bool] = {}
        self.words: dict[tuple[str, bool], int] = {}  # text, whether as a real number -> its number

    def size(self, name: str, value: int, least: int) -> Any:
        """A size, by name: what it is more than its smallest is what varies, and never negative.

        So the bounds of most expressions show in their signs: of `s0 - 1`, say, and its square.
        """
        return _named(f"({name} - {least})", value - least, self, 0) + least

    def real(self, name: str, value: float) -> SymbolicFloat:
        """A real number, by name."""
        return SymbolicFloat(name, value, self)

    def decide(self, text: str, outcome: bool) -> bool:
        """Note how a comparison came out."""
        self.decisions[text] = outcome
        return outcome

    def word(self, text: str, *, real: bool) -> str:
        """How a number is written in a program's text, until its place in the table is known."""
        return f"~{self.words.setdefault((text, real), len(self.words))}~"


class Symbolic:
    """A number that varies: `text` is its expression, `value` what it was when this was written."""

    __slots__ = ("by", "value")

    by: Symbols
    value: Any

    @property
    def text(self) -> str:
        """Its expression."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.text

    def _refuse(self) -> Any:
        raise NotSymbolic(f"{self.text}, which varies, is needed as a number")

    __index__ = __int__ = __float__ = __bool__ = __round__ = _refuse

    def word(self, *, real: bool) -> str:
        """How it is written in a program's text."""
        return self.by.word(self.text, real=real)


class Symbol(Symbolic):
    """A whole number: a sum of products."""

    __slots__ = ("_text", "terms")

    def __init__(self, terms: Terms, by: Symbols) -> None:
        self.terms, self.by = terms, by
        now = by.values
        self.value = sum(f * math.prod([now[one] for one in names]) for names, f in terms.items())
        self._text: str | None = None

    @property
    def text(self) -> str:
        """Its expression."""
        if self._text is None:
            parts = [
                " * ".join([*([str(factor)] if factor != 1 or not names else []), *names])
                for names, factor in sorted(self.terms.items())
            ]
            self._text = (
                parts[0] if len(parts) == 1 and "*" not in parts[0] else (f"({' + '.join(parts)})")
            )
        return self._text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.word(real=False)

    def __format__(self, spec: str) -> str:
        return self.word(real=False)

    # Arithmetic -------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        terms = _terms(other)
        if terms is None:
            return _real(self, other, "+", lambda a, b: a + b)
        made = dict(self.terms)
        for names, factor in terms.items():
            made[names] = made.get(names, 0) + factor
        return _made(made, self.by)

    __radd__ = __add__

    def __neg__(self) -> Any:
        return _made({names: -f for names, f in self.terms.items()}, self.by)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, tuple | list | str):
            return self._refuse()  # a repetition
        terms = _terms(other)
        if terms is None:
            return _real(self, other, "*", lambda a, b: a * b)
        made: Terms = {}
        for names, factor in self.terms.items():
            for more, times in terms.items():
                key = tuple(sorted((*names, *more)))
                made[key] = made.get(key, 0) + factor * times
        return _made(made, self.by)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        exact, rest = _divided(self, other)
        if rest is None or _is_less(rest, other):
            return exact
        if not isinstance(rest, Symbolic) and not isinstance(other, Symbolic):
            return exact + rest // other
        text = f"({_text(rest)} // {_text(other)})"
        low = _low(rest)
        is_bounded = low is not None and not isinstance(other, Symbolic) and other > 0
        least = low // other if low is not None and is_bounded else None
        return exact + _named(text, sample(rest) // sample(other), self.by, least)

    def __mod__(self, other: Any) -> Any:
        _, rest = _divided(self, other)
        if rest is None or _is_less(rest, other):
            return 0 if rest is None else rest
        if not isinstance(rest, Symbolic) and not isinstance(other, Symbolic):
            return rest % other
        text = f"({_text(rest)} % {_text(other)})"
        return _named(text, sample(rest) % sample(other), self.by, 0)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rfloordiv__(self, other: Any) -> Any:
        return _named(f"({other} // {self.text})", other // self.value, self.by, None)

    def __rmod__(self, other: Any) -> Any:
        if isinstance(other, str):
            return self._refuse()
        return _named(f"({other} % {self.text})", other % self.value, self.by, 0)

    def __pow__(self, other: Any) -> Any:
        if other.__class__ is int and 0 < other <= 4:
            made: Any = self
            for _ in range(other - 1):
                made = made * self
            return made
        return _real(self, other, "**", lambda a, b: a**b)

    def __truediv__(self, other: Any) -> Any:
        return _real(self, other, "/", lambda a, b: a / b)

    def __rtruediv__(self, other: Any) -> Any:
        return _real(other, self, "/", lambda a, b: a / b)

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    # Comparisons ------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, int | float | Symbolic):
            return False
        return _compared(self, other, "==")

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: Any) -> bool:
        return _compared(self, other, "<")

    def __le__(self, other: Any) -> bool:
        return not _compared(other, self, "<")

    def __gt__(self, other: Any) -> bool:
        return _compared(other, self, "<")

    def __ge__(self, other: Any) -> bool:
        return not _compared(self, other, "<")


class SymbolicFloat(Symbolic):
    """A real number: its expression is computed as it was written, in the same order."""

    __slots__ = ("_text",)

    def __init__(self, text: str, value: float, by: Symbols) -> None:
        self._text, self.value, self.by = text, value, by

    @property
    def text(self) -> str:
        """Its expression."""
        return self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __format__(self, spec: str) -> str:
        return self._refuse()  # type: ignore[no-any-return]  # it raises

    def __eq__(self, other: object) -> bool:
        if isinstance(other, SymbolicFloat) and other._text == self._text:
            return True
        if not isinstance(other, int | float | Symbolic):
            return False
        return self.by.decide(f"{self.text} == {_text(other)}", self.value == sample(other))

    def __neg__(self) -> Any:
        return SymbolicFloat(f"(-{self.text})", -self.value, self.by)

    def __abs__(self) -> Any:
        return SymbolicFloat(f"abs({self.text})", abs(self.value), self.by)


def _arithmetic(sign: str, function: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    def forwards(self: Any, other: Any) -> Any:
        return _real(self, other, sign, function)

    def backwards(self: Any, other: Any) -> Any:
        return _real(other, self, sign, function)

    return forwards, backwards


def _comparison(sign: str, function: Callable[[Any, Any], bool]) -> Any:
    def compare(self: Any, other: Any) -> bool:
        outcome = function(self.value, sample(other))
        return bool(self.by.decide(f"{self.text} {sign} {_text(other)}", outcome))

    return compare


_SIGNS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "add": ("+", lambda a, b: a + b), "sub": ("-", lambda a, b: a - b),
    "mul": ("*", lambda a, b: a * b), "truediv": ("/", lambda a, b: a / b),
    "pow": ("**", lambda a, b: a**b), "floordiv": ("//", lambda a, b: a // b),
    "mod": ("%", lambda a, b: a % b),
}  # fmt: skip
for _name, (_sign, _function) in _SIGNS.items():
    _forwards, _backwards = _arithmetic(_sign, _function)
    setattr(SymbolicFloat, f"__{_name}__", _forwards)
    setattr(SymbolicFloat, f"__r{_name}__", _backwards)
_ORDERS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "lt": ("<", lambda a, b: a < b), "le": ("<=", lambda a, b: a <= b),
    "gt": (">", lambda a, b: a > b), "ge": (">=", lambda a, b: a >= b),
}  # fmt: skip
for _name, (_sign, _order) in _ORDERS.items():
    setattr(SymbolicFloat, f"__{_name}__", _comparison(_sign, _order))


class SymbolicArray:
    """An array of no dimensions that holds a number that varies."""

    def __init__(self, number: Any, dtype: Any) -> None:
        self.number, self.dtype = number, dtype


def sample(number: Any) -> Any:
    """What a number was when the program was written: for what only costs depend on."""
    return number.value if isinstance(number, Symbolic) else number


def moves(number: Any, moving: frozenset[int] = frozenset()) -> bool:
    """Whether a size is another one in programs that share code: as a symbol, or by its number."""
    return isinstance(number, Symbolic) or number in moving


def _text(number: Any) -> str:
    if isinstance(number, float) and not math.isfinite(number):
        return f"float('{number}')"
    return number.text if isinstance(number, Symbolic) else repr(number)


def _terms(number: Any) -> Terms | None:
    if number.__class__ is Symbol:
        terms: Terms = number.terms
        return terms
    if number.__class__ is int or number.__class__ is bool:
        return {(): int(number)}
    return None


def _made(terms: Terms, by: Symbols) -> Any:
    kept = {names: factor for names, factor in terms.items() if factor}
    if all(not names for names in kept):
        return kept.get((), 0)
    return Symbol(kept, by)


def _named(text: str, value: int, by: Symbols, least: int | None) -> Symbol:
    """A whole number under a name: what is no polynomial."""
    by.values[text] = value
    if least is not None:
        by.least[text] = least
    return Symbol({(text,): 1}, by)


def _real(a: Any, b: Any, sign: str, function: Callable[[Any, Any], Any]) -> SymbolicFloat:
    if not all(isinstance(one, int | float | Symbolic) for one in (a, b)):
        raise NotSymbolic(f"a number that varies, {sign} a {type(b).__name__}")
    by = a.by if isinstance(a, Symbolic) else b.by
    value = function(sample(a), sample(b))
    if not isinstance(value, float):
        raise NotSymbolic("a number that varies, and is of another kind then")
    return SymbolicFloat(f"({_text(a)} {sign} {_text(b)})", value, by)


def _divided(number: Symbol, by: Any) -> tuple[Any, Any]:
    """What a number is a multiple of another for sure, and the rest; None where there is none."""
    terms = _terms(by)
    if terms is None:
        return 0, number
    if len(terms) > 1:
        return _quotient(number, by)
    ((names, divisor),) = terms.items()
    whole: Terms = {}
    rest: Terms = {}
    for product, factor in number.terms.items():
        left = _without(product, names)
        if left is None or factor % divisor:
            rest[product] = factor
        else:
            whole[left] = factor // divisor
    if not rest:
        return _made(whole, number.by), None
    return _made(whole, number.by), _made(rest, number.by)


def _quotient(number: Any, by: Symbol) -> tuple[Any, Any]:
    """The same for a sum of several products: as one divides polynomials, from the highest on."""
    highest, divisor = max(by.terms.items(), key=lambda one: (len(one[0]), one[0]))
    exact: Any = 0
    rest: Any = number
    while isinstance(rest, Symbol):
        names, factor = max(rest.terms.items(), key=lambda one: (len(one[0]), one[0]))
        left = _without(names, highest)
        if left is None or factor % divisor:
            break
        part = _made({left: factor // divisor}, number.by)
        exact, rest = exact + part, rest - part * by
    if isinstance(rest, int) and rest == 0:
        return exact, None
    return 0, number


def _without(names: tuple[str, ...], fewer: tuple[str, ...]) -> tuple[str, ...] | None:
    left = list(names)
    for one in fewer:
        if one not in left:
            return None
        left.remove(one)
    return tuple(left)


def _is_less(rest: Any, other: Any) -> bool:
    """Whether a rest is a proper one for sure: not negative, and less than the divisor."""
    low, room = _low(rest), _low(other - rest)
    return low is not None and low >= 0 and room is not None and room > 0


def _low(number: Any) -> int | None:
    """The smallest that it can be; None where nobody knows."""
    if not isinstance(number, Symbol):
        return number  # type: ignore[no-any-return]  # of an Any
    total = 0
    for names, factor in number.terms.items():
        least = 1
        for name in names:
            one = number.by.least.get(name)
            if one is None or one < 0:
                return None
            least *= one
        if names and factor < 0:
            return None
        total += factor * least
    return total


def _compared(a: Any, b: Any, sign: str) -> bool:
    """`a == b` or `a < b`, by what is known of sizes, or noted as a decision."""
    if not (isinstance(a, int | Symbol) and isinstance(b, int | Symbol)):
        by = a.by if isinstance(a, Symbolic) else b.by
        x, y = sample(a), sample(b)
        outcome = x == y if sign == "==" else x < y
        return bool(by.decide(f"{_text(a)} {sign} {_text(b)}", outcome))
    difference = a - b
    if not isinstance(difference, Symbol):
        return bool(difference == 0 if sign == "==" else difference < 0)
    low, high = _low(difference), _low(-difference)
    if low is not None and (low > 0 or (low == 0 and sign == "<")):
        return False
    if high is not None and high > 0:
        return sign == "<"
    outcome = difference.value == 0 if sign == "==" else difference.value < 0
    return difference.by.decide(f"{difference.text} {sign} 0", outcome)
