"""A formula run on stand-ins, which note what is done to them.

A formula is an ordinary forward, `def silu(xp, input): return input / (1 + xp.exp(-input))`: on
arrays, with an array library as `xp`, it computes; here `xp` has the same functions and makes
expressions. Options are ordinary values while a formula is traced, so `if approximate == "tanh":`
is ordinary Python. Conditions on elements are `xp.where`, and which side has the equality is the
convention at a kink.
"""

from __future__ import annotations

import numbers
from typing import Any

from pullback.operators.formula.language import Expr, const, make, number_of
from pullback.operators.formula.words import NUMPY, WORDS

__all__ = ["CannotTrace", "Traced", "expression", "traced", "words"]


class CannotTrace(TypeError):  # noqa: N818 (no error where a plain forward is tried)
    """The formula asks for what a stand-in does not have: a value, a shape, a memory."""


class Traced:
    """In the place of an array."""

    __slots__ = ("expr",)
    __hash__ = None  # type: ignore[assignment]  # as arrays
    __array_ufunc__ = None  # NumPy's numbers leave operators to this class

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def __bool__(self) -> bool:
        raise CannotTrace("a formula cannot ask for a value that it does not have yet; use where")

    def __getattr__(self, name: str) -> Any:
        raise CannotTrace(f"a formula has no {name} of its inputs")

    def __neg__(self) -> Traced:
        return Traced(make("neg", self.expr))

    def __abs__(self) -> Traced:
        return Traced(make("abs", self.expr))

    def __invert__(self) -> Traced:
        return Traced(make("not", self.expr))

    def __pow__(self, n: Any) -> Traced:
        if isinstance(n, Traced):
            return Traced(make("pow", self.expr, n.expr))
        if n == 2:
            return self * self  # type: ignore[operator, no-any-return]  # made below
        if n in (0.5, -0.5):
            return Traced(make("sqrt" if n > 0 else "rsqrt", self.expr))
        if float(n).is_integer() and 1 < abs(n) <= 16:
            return Traced(make("powi", self.expr, note=int(n)))
        return self if n == 1 else Traced(make("pow", self.expr, const(n)))


def expression(value: Any) -> Expr:
    """What a stand-in stands for, or a number."""
    if isinstance(value, Traced):
        return value.expr
    if isinstance(value, numbers.Real):
        return const(float(value))
    raise CannotTrace(f"a formula is made of its inputs and of numbers, not of {value!r}")


def _operator(word: str, *, is_reversed: bool = False) -> Any:
    def noted(self: Traced, other: Any) -> Any:
        try:
            operands = (self.expr, expression(other))
        except CannotTrace:
            return NotImplemented
        return Traced(make(word, *(operands[::-1] if is_reversed else operands)))

    return noted


for _name, _word in {"add": "add", "sub": "sub", "mul": "mul", "truediv": "div"}.items():
    setattr(Traced, f"__{_name}__", _operator(_word))
    setattr(Traced, f"__r{_name}__", _operator(_word, is_reversed=True))
for _word in ("lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor"):
    setattr(Traced, f"__{_word}__", _operator(_word))


class _Words:
    """The array library of formulas: functions under NumPy's names, and words that NumPy has not.

    A function of numbers alone is a constant too, which back ends compute.
    """

    pi, inf, nan = 3.141592653589793, float("inf"), float("nan")

    def __getattr__(self, name: str) -> Any:
        word = NUMPY.get(name) or (name if name in WORDS else None)
        if word is None:
            raise CannotTrace(f"formulas have no word for {name}")

        def call(*args: Any) -> Traced:
            return Traced(make(word, *[expression(one) for one in args]))

        setattr(self, name, call)
        return call

    def square(self, x: Any) -> Any:
        """`x * x`."""
        return x * x

    def clip(self, x: Any, low: Any, high: Any) -> Any:
        """Within bounds."""
        x = x if low is None else self.maximum(x, low)
        return x if high is None else self.minimum(x, high)

    def isnan(self, x: Any) -> Any:
        """Whether it is no number."""
        return Traced(make("ne", x.expr, x.expr))

    def isfinite(self, x: Any) -> Any:
        """Whether it is a number, and no infinity."""
        return abs(x) < self.inf

    def isinf(self, x: Any) -> Any:
        """Whether it is one of the infinities."""
        return Traced(make("eq", abs(x).expr, const(self.inf)))


words: Any = _Words()


def traced(function: Any, given: dict[str, Any]) -> Expr:
    """The expression that a formula makes of these arguments: expressions and options."""
    arguments = {name: Traced(one) if isinstance(one, Expr) else one for name, one in given.items()}
    made = expression(function(words, **arguments))
    assert made.word != "const" or number_of(made) is not None
    return made
