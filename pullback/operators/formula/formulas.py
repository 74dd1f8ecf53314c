"""Formulas: traced when first needed, with slopes by hand and variants for back ends.

A formula is a function of an array library and arrays: the plain meaning. A helper that several
operators share is a formula by itself, `@formula`, and stays one word of theirs until a back end
expands it: so its own derivative and its variants are used by all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from pullback.operators.declare import parameters_of
from pullback.operators.formula import derive
from pullback.operators.formula.language import Expr, make, rebuilt, replaced, symbol
from pullback.operators.formula.tracing import Traced, expression, traced, words

__all__ = ["FORMULAS", "Formula", "Slope", "expanded", "formula", "slope", "variant"]

F = TypeVar("F", bound=Callable[..., Any])
FORMULAS: dict[str, Formula] = {}
_MOST = 256  # sets of options of one formula whose expression is kept


class Slope:
    """A derivative by hand, in words."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.asks = tuple(name for name in parameters_of(function) if name != "xp")

    def of(self, xp: Any, **asked: Any) -> Any:
        """It, of what it asks for."""
        takes_words = "xp" in parameters_of(self.function)
        return self.function(xp, **asked) if takes_words else self.function(**asked)


def slope(function: Callable[..., Any]) -> Slope:
    """The derivative by one input, in words: a function of `xp`, inputs, options and `out`."""
    return Slope(function)


class Formula:
    """A formula: its function, its slopes by hand and its variants for back ends."""

    def __init__(self, function: Any, tensors: tuple[str, ...], name: str = "") -> None:
        self.function = function
        self.name: str = name or function.__name__
        self.tensors = tensors
        self.slopes: dict[str, Slope] = {}
        self.variants: dict[tuple[str, str], Any] = {}
        self.word = ""  # by which back ends that have it as one know it
        self._bodies: dict[Any, Expr] = {}
        self.__doc__ = function.__doc__
        FORMULAS[self.name] = self

    def __repr__(self) -> str:
        return f"<formula {self.name}>"

    def __call__(self, xp: Any, *args: Any, **options: Any) -> Any:
        """On arrays the meaning; in another formula a word of it."""
        if xp is not words:
            return self.function(xp, *args, **options)
        named = {name: getattr(one, "expr", one) for name, one in options.items()}
        return Traced(self.called([expression(one) for one in args], named))

    def called(self, args: list[Expr], options: dict[str, Any]) -> Expr:
        """It as one word of these operands."""
        key = tuple(sorted(options.items()))
        return make("call", *args, note=(self, key, repr(key)))  # -0.0 is equal to 0.0, and other

    def body(self, options: dict[str, Any], back_end: str = "", dtype: str = "") -> Expr:
        """Its expression, of inputs by their names; None for an input is an option."""
        function = self.variant_for(back_end, dtype) or self.function
        key = (function, tuple((name, repr(one)) for name, one in sorted(options.items())))
        known = self._bodies.get(key)
        if known is None:
            if len(self._bodies) >= _MOST:
                self._bodies.clear()
            given = {name: symbol(name) for name in self.tensors if name not in options}
            known = self._bodies[key] = traced(function, {**given, **options})
        return known

    def variant_for(self, back_end: str, dtype: str) -> Any:
        """What is fitted for a back end and dtype, if anything is."""
        for key in ((back_end, dtype), (back_end, "")):
            if key in self.variants:
                return self.variants[key]
        return None

    def slope_at(
        self, name: str, given: dict[str, Expr], options: dict[str, Any], *, out: Expr
    ) -> Expr:
        """The derivative by one input, at these: as given by hand, or from the body."""
        by_hand = self.slopes.get(name)
        if by_hand is None:
            made = derive.mechanical(self, name, options)
        else:
            places: dict[str, Any] = {one: symbol(one) for one in (*self.tensors, "out")}
            known = {**self.defaults(), **places, **options}
            made = traced(by_hand.of, {one: known[one] for one in by_hand.asks})
        put = {symbol(one): value for one, value in given.items()}
        return replaced(made, {**put, symbol("out"): out})

    def defaults(self) -> dict[str, Any]:
        """The options that need not be given."""
        signature = inspect.signature(self.function).parameters.values()
        return {one.name: one.default for one in signature if one.default is not one.empty}


def formula(*, word: str = "", **slopes: Slope) -> Callable[[Any], Formula]:
    """A helper of other formulas; `word`: what back ends may have it as."""

    def declare(function: Any) -> Formula:
        names = [
            one.name
            for one in inspect.signature(function).parameters.values()
            if one.kind is one.POSITIONAL_OR_KEYWORD and one.name != "xp"
        ]
        made = Formula(function, tuple(names))
        made.word = word
        made.slopes.update(slopes)
        return made

    return declare


def variant(of: Any, back_end: str, *dtypes: str) -> Callable[[F], F]:
    """Another formula for a back end ("few", "many", "native", "c") and some dtypes, or all."""
    known: Formula = of if isinstance(of, Formula) else of.op.formula.formula

    def enter(function: F) -> F:
        for dtype in dtypes or ("",):
            known.variants[back_end, dtype] = function
        return function

    return enter


def expanded(root: Expr, back_end: str, dtype: str, known: frozenset[str]) -> Expr:
    """Calls of other formulas written out, save those that the back end has as words."""

    def change(one: Expr, args: tuple[Expr, ...]) -> Expr | None:
        if one.word != "call":
            return None
        called: Formula = one.note[0]
        if called.word in known and called.variant_for(back_end, dtype) is None:
            return make(called.word, *args)
        options = dict(one.note[1])
        body = called.body(options, back_end, dtype)
        names = [name for name in called.tensors if name not in options]
        put = {symbol(name): arg for name, arg in zip(names, args, strict=True)}
        return expanded(replaced(body, put), back_end, dtype, known)

    return rebuilt(root, change)
