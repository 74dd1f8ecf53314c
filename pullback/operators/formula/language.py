"""Expressions: what a formula is made of, each equal one once.

Words are those of the array language of compiled programs (`compiled/ir`), one to one. `call` is
another formula, which stays a single word until a back end expands it.

What is simplified here keeps every bit of the value: `(1 + x) - 1` stays. Derivatives may be
re-associated, see `derive`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any
from weakref import WeakValueDictionary

__all__ = ["BOOLEAN", "Expr", "const", "cost", "inputs_of", "is_number", "make", "number_of",
           "order", "rebuilt", "replaced", "symbol"]  # fmt: skip

BOOLEAN = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "not", "and", "or", "xor"})
_COMMUTE = frozenset({"add", "mul", "and", "or", "eq", "ne"})
_FOLD: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
}
# What an element of each costs, in additions; 1 where nothing is said.
_COST = {
    **dict.fromkeys(("exp", "expm1", "tanh", "erf", "log", "log1p", "sin", "cos", "call"), 10),
    **dict.fromkeys(("sqrt", "recip", "div", "rsqrt"), 3),
    **dict.fromkeys(("sinh", "cosh", "tan", "atan", "asinh", "atan2", "hypot", "pow", "erfc"), 30),
    **dict.fromkeys(("input", "const"), 0),
}


class Expr:
    """One value of a formula; equal ones are the same object, so they are compared by identity."""

    __slots__ = ("__weakref__", "args", "note", "number", "word")

    def __init__(self, word: str, args: tuple[Expr, ...], note: Any, number: int) -> None:
        self.word, self.args, self.note, self.number = word, args, note, number

    def __repr__(self) -> str:
        if self.word in ("input", "const"):
            return str(self.note[0] if self.word == "const" else self.note)
        name = self.note[0].name if self.word == "call" else self.word
        extra = "" if self.note is None or self.word == "call" else f", {self.note}"
        return f"{name}({', '.join(map(repr, self.args))}{extra})"


# By word, operands and note. An entry goes with its expression, which keeps its operands alive, so
# that their numbers are nobody else's meanwhile.
_known: WeakValueDictionary[Any, Expr] = WeakValueDictionary()
_made = iter(range(1 << 62))


def _interned(word: str, args: tuple[Expr, ...], note: Any) -> Expr:
    key = (word, tuple([one.number for one in args]), note)
    return _known.get(key) or _known.setdefault(key, Expr(word, args, note, next(_made)))


def symbol(name: str) -> Expr:
    """An input, by its name."""
    return _interned("input", (), name)


def const(value: float) -> Expr:
    """A number."""
    number = float(value)
    return _interned("const", (), (number if number == number else "nan", math.copysign(1, number)))


def number_of(one: Expr) -> float | None:
    """The number of a constant."""
    if one.word != "const":
        return None
    return math.nan if one.note[0] == "nan" else float(one.note[0])


def is_number(one: Expr, value: float) -> bool:
    """Whether it is this constant; both zeros are 0."""
    return one.word == "const" and one.note[0] == value


def make(word: str, *args: Expr, note: Any = None) -> Expr:
    """A value, or the one that is equal to it."""
    if word != "call":
        known = _folded(word, args) or _simpler(word, args)
        if known is not None:
            return known
        if word in _COMMUTE and args[0].number > args[1].number:
            args = (args[1], args[0])
    return _interned(word, args, note)


def _folded(word: str, args: tuple[Expr, ...]) -> Expr | None:
    numbers = [number_of(one) for one in args]
    if word in _FOLD and None not in numbers:
        return const(_FOLD[word](*numbers))
    if word == "div" and None not in numbers and numbers[1]:
        return const(numbers[0] / numbers[1])  # type: ignore[operator]  # None is not in it
    return None


def _simpler(word: str, args: tuple[Expr, ...]) -> Expr | None:
    """The same bits by less work."""
    if word == "neg" and args[0].word == "neg":
        return args[0].args[0]
    if word == "where":
        condition, yes, no = args
        if yes is no:
            return yes
        if no.word == "where" and no.args[1] is yes:  # one mask for both
            return make("where", make("or", condition, no.args[0]), yes, no.args[2])
    if word == "sub":
        if is_number(args[1], 0) and args[1].note[1] > 0:
            return args[0]
        return make("add", args[0], args[1].args[0]) if args[1].word == "neg" else None
    if word == "add":
        for a, b in (args, args[::-1]):
            if b.word == "neg":
                return make("sub", a, b.args[0])
    return _simpler_product(word, args) if word in ("mul", "div") else None


def _simpler_product(word: str, args: tuple[Expr, ...]) -> Expr | None:
    a, b = args
    for factor, other in ((b, a),) if word == "div" else ((a, b), (b, a)):
        if is_number(factor, 1):
            return other
        if is_number(factor, -1):
            return make("neg", other)
    if word == "div" and is_number(a, 1):
        return make("recip", b)
    if a.word == b.word == "neg":
        return make(word, a.args[0], b.args[0])
    if a.word == "neg":  # signs go outwards
        return make("neg", make(word, a.args[0], b))
    if b.word == "neg":
        return make("neg", make(word, a, b.args[0]))
    return None


# Walking ------------------------------------------------------------------------------------------


def order(*roots: Expr) -> list[Expr]:
    """All values that these are made of, operands first."""
    seen: dict[Expr, None] = {}
    stack = list(reversed(roots))
    while stack:
        one = stack[-1]
        waiting = [arg for arg in reversed(one.args) if arg not in seen]
        if waiting and one not in seen:
            stack += waiting
        else:
            seen.setdefault(stack.pop())
    return list(seen)


def rebuilt(root: Expr, change: Callable[[Expr, tuple[Expr, ...]], Expr | None]) -> Expr:
    """The same with `change(value, its new operands)` in place of each; None keeps the word."""
    done: dict[Expr, Expr] = {}
    for one in order(root):
        args = tuple([done[arg] for arg in one.args])
        made = change(one, args)
        if made is None:
            same = all(a is b for a, b in zip(args, one.args, strict=True))
            made = one if same else make(one.word, *args, note=one.note)
        done[one] = made
    return done[root]


def replaced(root: Expr, new: dict[Expr, Expr]) -> Expr:
    """The same with other values in place of some."""
    return rebuilt(root, lambda one, _: new.get(one))


def inputs_of(roots: Iterable[Expr]) -> list[str]:
    """The names of the inputs that these depend on."""
    return [one.note for one in order(*roots) if one.word == "input"]


def cost(*roots: Expr) -> int:
    """In additions; what is shared counts once."""
    return sum(_COST.get(one.word, 1) for one in order(*roots))
