"""Numbers that remember which sizes they come from, and note every decision made by them.

While a capture is generalised, `x.shape[0]` is a `Sized`: an int as any other, whose arithmetic
carries the expression along (`s0 * 4`) and whose comparisons are written down, so that a program is
used only for sizes that decide alike. What would lose the expression and could decide unseen
(`float(n)`, `len(x)` in the user's code) is refused.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable
from typing import Any

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter import library
from pullback.compiled.sizes.fit import UNKNOWN, mentions_numbers
from pullback.core.origin import getframe, internal
from pullback.operators.shape import reshaping

__all__ = ["Ledger", "Sized", "SizedFloat", "plain"]

_ROUNDING = ("int(", "round(", "//", "%", ">>", "<<", "&", "|", "^")
# Where sizes are compared with others that stay, which changes nothing but whether it copies.
_RESHAPING = reshaping.__file__
_INTERPRETER = os.path.join(os.path.dirname(os.path.dirname(__file__)), "interpreter") + os.sep


class Ledger:
    """The decisions that one capture made by sizes: text of the comparison -> how it came out."""

    def __init__(self, known: dict[int, tuple[str | None, ...]]) -> None:
        """`known`: of each value, by number, the expressions of its sizes; None where fixed."""
        self.known = known
        self._sizes = {text for texts in known.values() for text in texts}
        self.decisions: dict[str, bool] = {}
        # Real numbers that were computed, by value: some are rounded, and remember nothing then.
        self.computed: dict[str, float] = {}
        # What was divided and rounded, by expression: it may be the same at the sizes that were
        # tried, and another one at others.
        self.rounded: dict[str, Any] = {}
        # Whether sizes are larger than whole numbers, as the library asks: some are the user's.
        self.compared: dict[str, bool] = {}
        self.is_open = True
        self.frames: list[Any] = []  # of the interpreter that runs the function

    def is_asked_by_user(self, file: str) -> bool:
        """Whether it is the user's code that asks: by itself, or in the interpreter."""
        if file.startswith(_INTERPRETER):
            return bool(self.frames) and not self.frames[-1].ours
        return not internal[file]

    def shown(self, array: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape whose varying sizes remember what they are."""
        value = array.value
        texts = None if value is None or not self.is_open else self.known.get(value.number)
        if texts is None or len(texts) != len(shape):
            return shape
        pairs = zip(shape, texts, strict=True)
        return tuple([n if text is None else Sized(n, text, self) for n, text in pairs])

    def decide(self, text: str, outcome: bool, bound: Any = None) -> None:
        """Write a decision of the user's code down.

        The library decides by sizes for speed, and by whether they are 1: programs do not. By other
        numbers it decides what it does, and so it may by a `bound` of a size.
        """
        if not self.is_open:
            return
        file = getframe(2).f_code.co_filename
        if mentions_numbers(text) or self.is_asked_by_user(file):
            if UNKNOWN in text:
                raise CannotCapture("a decision by a size that is no simple expression of others")
            self.decisions[text] = outcome
        elif bound.__class__ is int and bound > 1 and file != _RESHAPING:
            size = text.rsplit(" ", 2)[0]
            # How much there is to do, by which it decides for speed, is a product.
            if UNKNOWN not in text and ("*" not in size or size in self._sizes):
                self.compared[text] = outcome

    def note(self, text: str, value: Any) -> None:
        """Write down what was computed, if something in it was rounded."""
        if self.is_open and any(sign in text for sign in _ROUNDING):
            if UNKNOWN in text:
                raise CannotCapture("a size that is no simple expression of others is rounded")
            self.rounded[text] = value


def plain(tree: Any) -> Any:
    """Arguments with usual numbers in them."""
    kind = tree.__class__
    if kind is Sized:
        return int.__int__(tree)
    if kind is SizedFloat:
        return float.__float__(tree)
    if kind is tuple:
        return tuple([plain(one) for one in tree]) if tree else tree
    if kind is list:
        return [plain(one) for one in tree]
    if kind is dict:
        return {name: plain(one) for name, one in tree.items()}
    if kind is slice:
        return slice(plain(tree.start), plain(tree.stop), plain(tree.step))
    return tree


class Sized(int):
    """A size, or a whole number computed from sizes."""

    text: str
    ledger: Ledger

    def __new__(cls, value: int, text: str, ledger: Ledger) -> Sized:
        """A number with its expression."""
        made = super().__new__(cls, value)
        made.text, made.ledger = text, ledger
        return made

    def __bool__(self) -> bool:
        truth = int.__int__(self) != 0
        self.ledger.decide(f"{self.text} != 0", truth)
        return truth

    def __int__(self) -> int:
        _refuse_users(self, "int()")
        return int.__int__(self)

    def __float__(self) -> float:
        _refuse_users(self, "float()")
        return float(int.__int__(self))

    def __hash__(self) -> int:
        _refuse_users(self, "a key of a dict or an element of a set")
        return int.__hash__(self)

    def __reduce__(self) -> Any:
        return (int, (int.__int__(self),))


class SizedFloat(float):
    """A number that is not whole, computed from sizes."""

    text: str
    ledger: Ledger

    def __new__(cls, value: float, text: str, ledger: Ledger) -> SizedFloat:
        """A number with its expression."""
        made = super().__new__(cls, value)
        made.text, made.ledger = text, ledger
        ledger.computed[text] = value
        return made

    def __bool__(self) -> bool:
        truth = float.__float__(self) != 0
        self.ledger.decide(f"{self.text} != 0", truth)
        return truth

    def __hash__(self) -> int:
        _refuse_users(self, "a key of a dict or an element of a set")
        return float.__hash__(self)

    def __float__(self) -> float:
        _refuse_users(self, "float()")
        return float.__float__(self)

    def __int__(self) -> int:
        _refuse_users(self, "int()")
        made: int = self._rounded("int({})", int)
        return made

    def __ceil__(self) -> int:
        made: int = self._rounded("-int(-{} // 1)", math.ceil)
        return made

    def __floor__(self) -> int:
        made: int = self._rounded("int({} // 1)", math.floor)
        return made

    def __trunc__(self) -> int:
        made: int = self._rounded("int({})", math.trunc)
        return made

    def __round__(self, *digits: Any) -> Any:
        pattern = f"round({{}}, {digits[0]})" if digits else "round({})"
        return self._rounded(pattern, lambda one: round(one, *digits))

    def _rounded(self, pattern: str, how: Callable[[float], Any]) -> Any:
        """A number that remembers nothing: what it seems to be is a decision."""
        made = how(float.__float__(self))
        self.ledger.note(pattern.format(self.text), made)
        return made


def _refuse_users(number: Any, use: str) -> None:
    """Refuse what loses the expression, in the user's own code; the library decides nothing so."""
    asked = number.ledger.is_asked_by_user(getframe(2).f_code.co_filename)
    if number.ledger.is_open and asked:
        raise CannotCapture(f"a size that varies is used as {use}: {number.text}")


def refuse_users_len(array: Any) -> None:
    """Refuse `len(x)` of the user's: Python makes it an int that remembers nothing."""
    ledger = array.storage.tracer.sizes
    value = array.value
    if ledger is None or not ledger.is_open or value is None:
        return
    texts = ledger.known.get(value.number)
    if texts and texts[0] is not None and ledger.is_asked_by_user(getframe(3).f_code.co_filename):
        raise CannotCapture(
            f"len() of a tensor whose size varies ({texts[0]}); write x.shape[0] instead"
        )


def _numbers(other: Any) -> bool:
    return isinstance(other, int | float)


def _text(one: Any) -> str:
    return str(getattr(one, "text", None) or repr(one))


def _made(value: Any, text: str, ledger: Ledger) -> Any:
    if isinstance(value, float):
        return SizedFloat(value, text, ledger)
    if not isinstance(value, int):
        return value
    ledger.computed[text] = value
    return Sized(value, text, ledger)


def _binary(function: Callable[[Any, Any], Any], sign: str, *, swapped: bool) -> Any:
    def method(self: Any, other: Any) -> Any:
        if not _numbers(other):
            return NotImplemented
        mine, theirs = plain(self), plain(other)
        value = function(theirs, mine) if swapped else function(mine, theirs)
        a, b = (_text(other), self.text) if swapped else (self.text, _text(other))
        text = f"({a} {sign} {b})"
        self.ledger.note(text, value)
        return _made(value, text, self.ledger)

    return method


def _comparison(function: Callable[[Any, Any], Any], sign: str) -> Any:
    def method(self: Any, other: Any) -> Any:
        if not _numbers(other):
            return NotImplemented
        outcome = function(plain(self), plain(other))
        if _text(other) != self.text:
            bound = other if sign[0] in "<>" else None
            self.ledger.decide(f"{self.text} {sign} {_text(other)}", outcome, bound)
        return outcome

    return method


def _unary(function: Callable[[Any], Any], pattern: str) -> Any:
    def method(self: Any) -> Any:
        return _made(function(plain(self)), pattern.format(self.text), self.ledger)

    return method


for _name, _function, _sign in [
    ("add", operator.add, "+"), ("sub", operator.sub, "-"), ("mul", operator.mul, "*"),
    ("floordiv", operator.floordiv, "//"), ("mod", operator.mod, "%"),
    ("truediv", operator.truediv, "/"), ("pow", operator.pow, "**"),
]:  # fmt: skip
    for _kind in (Sized, SizedFloat):
        setattr(_kind, f"__{_name}__", _binary(_function, _sign, swapped=False))
        setattr(_kind, f"__r{_name}__", _binary(_function, _sign, swapped=True))
for _name, _function, _sign in [
    ("eq", operator.eq, "=="), ("ne", operator.ne, "!="), ("lt", operator.lt, "<"),
    ("le", operator.le, "<="), ("gt", operator.gt, ">"), ("ge", operator.ge, ">="),
]:  # fmt: skip
    for _kind in (Sized, SizedFloat):
        setattr(_kind, f"__{_name}__", _comparison(_function, _sign))
for _kind in (Sized, SizedFloat):
    setattr(_kind, "__divmod__", lambda a, b: (a // b, a % b))  # noqa: B010 (as the others)
    setattr(_kind, "__rdivmod__", lambda a, b: (b // a, b % a))  # noqa: B010 (the same)
for _name, _function, _sign in [
    ("lshift", operator.lshift, "<<"), ("rshift", operator.rshift, ">>"),
    ("and", operator.and_, "&"), ("or", operator.or_, "|"), ("xor", operator.xor, "^"),
]:  # fmt: skip
    setattr(Sized, f"__{_name}__", _binary(_function, _sign, swapped=False))
    setattr(Sized, f"__r{_name}__", _binary(_function, _sign, swapped=True))
_UNARY: list[tuple[str, Callable[[Any], Any], str]] = [
    ("neg", operator.neg, "(-{})"), ("pos", operator.pos, "{}"), ("abs", abs, "abs({})"),
]  # fmt: skip
for _name, _of_one, _pattern in _UNARY:
    for _kind in (Sized, SizedFloat):
        setattr(_kind, f"__{_name}__", _unary(_of_one, _pattern))
library.SIZED |= {Sized, SizedFloat}
