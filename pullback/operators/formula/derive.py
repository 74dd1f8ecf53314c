"""Derivatives of formulas, by rules on words.

Everything is in terms of the slope: a tangent is slope * dx, an adjoint g * conj(slope). The slope
goes forward through the expression, operand by operand, not backward: so a choice stays outside,
`where(c, da, db)`, and what was not chosen cannot spoil what was (0 * inf).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback.operators.formula.language import (
    BOOLEAN,
    Expr,
    const,
    inputs_of,
    is_number,
    make,
    number_of,
    order,
    replaced,
    symbol,
)
from pullback.operators.formula.tracing import Traced, expression, words
from pullback.operators.formula.words import SLOPES

if TYPE_CHECKING:
    from pullback.operators.formula.formulas import Formula

__all__ = ["NoSlope", "adjoint", "mechanical", "plus", "slope", "slope_of",
           "times"]  # fmt: skip

_ZERO, _ONE = const(0.0), const(1.0)


class NoSlope(TypeError):  # noqa: N818 (of a formula, said to its author)
    """The mechanical slope would be wrong, or there is none: one has to be given by hand."""


# What only derivatives are allowed: other rounding, fewer steps -----------------------------------


def _factors(one: Expr) -> tuple[float, Expr]:
    """A number, and the rest of a product."""
    if one.word == "neg":
        number, rest = _factors(one.args[0])
        return -number, rest
    if one.word == "mul":
        for a, b in (one.args, one.args[::-1]):
            if (factor := number_of(a)) is not None:
                return factor, b
    alone = number_of(one)
    return (1.0, one) if alone is None else (alone, _ONE)


def times(a: Expr, b: Expr) -> Expr:
    """A product: numbers go outwards, and so do choices that have a 0 in them."""
    if is_number(a, 0) or is_number(b, 0):
        return _ZERO
    for mask, other in ((a, b), (b, a)):
        if mask.word == "where" and _is_mask(mask):
            condition, yes, no = mask.args
            return make("where", condition, times(yes, other), times(no, other))
    (j, x), (k, y) = _factors(a), _factors(b)
    if x.word == "recip" and y.word != "recip":
        x, y = y, x
    if y.word == "recip" and x.word != "recip":
        product = make("div", x, y.args[0])
    else:
        product = make("mul", x, y)
    return make("mul", const(j * k), product)


def _is_mask(one: Expr) -> bool:
    """Whether a choice has a 0 in it, which no factor may touch: 0 * inf."""
    return any(is_number(x, 0) or (x.word == "where" and _is_mask(x)) for x in one.args[1:])


def plus(a: Expr, b: Expr) -> Expr:
    """A sum: equal terms become one, and so do equal conditions and divisors."""
    if is_number(a, 0) or is_number(b, 0):
        return a if is_number(b, 0) else b
    (j, x), (k, y) = _factors(a), _factors(b)
    if x is y:  # as a whole: taken apart, 2 (x - y) would become 2 x - 2 y, which overflows
        return times(const(j + k), x)
    if a.word == b.word == "where" and a.args[0] is b.args[0]:
        yes, no = plus(a.args[1], b.args[1]), plus(a.args[2], b.args[2])
        return make("where", a.args[0], yes, no)
    if a.word == b.word == "div" and a.args[1] is b.args[1]:
        return make("div", plus(a.args[0], b.args[0]), a.args[1])
    return _joined(a, b)


def _joined(a: Expr, b: Expr) -> Expr:
    """The sum, with terms that differ by a number in one."""
    parts = [*_terms(a), *_terms(b)]
    terms: dict[Expr, float] = {}
    for one in parts:
        factor, rest = _factors(one)
        terms[rest] = terms.get(rest, 0.0) + factor
    if len(terms) == len(parts):
        return make("add", a, b)
    made = _ZERO
    for rest, factor in terms.items():
        term = times(const(factor), rest)
        made = term if is_number(made, 0) else make("add", made, term) if factor else made
    return made


def _terms(one: Expr) -> list[Expr]:
    if one.word == "add":
        return [*_terms(one.args[0]), *_terms(one.args[1])]
    if one.word == "sub":
        return [*_terms(one.args[0]), make("neg", one.args[1])]
    return [one]


# The slope ----------------------------------------------------------------------------------------


def slope(root: Expr, name: str, *, is_part: bool = False) -> Expr:
    """The derivative of an expression by one of its inputs.

    A condition that holds at single points (`x == 0`) has the slope of the constant there, which is
    rarely meant: it is refused, unless the expression is a part of a slope given by hand.
    """
    known: dict[Expr, Expr] = {}
    for one in order(root):
        known[one] = _slope_of(one, name, known, is_part=is_part)
    return known[root]


def _slope_of(one: Expr, name: str, known: dict[Expr, Expr], *, is_part: bool) -> Expr:
    word, args = one.word, one.args
    if word == "input":
        return _ONE if one.note == name else _ZERO
    inner = [known[arg] for arg in args]
    if word in BOOLEAN or word == "const" or all(is_number(d, 0) for d in inner):
        return _ZERO
    if word == "neg":
        return times(const(-1.0), inner[0])
    if word in ("add", "sub"):
        return plus(inner[0], inner[1] if word == "add" else times(const(-1.0), inner[1]))
    if word == "mul":
        return plus(times(inner[0], args[1]), times(args[0], inner[1]))
    if word == "div":
        above = plus(inner[0], times(const(-1.0), times(one, inner[1])))
        return times(above, make("recip", args[1]))
    if word == "where":
        if not is_part and _holds_at_points(args[0], name):
            raise NoSlope(
                f"where({args[0]!r}, ...): the condition holds at single points, where the slope "
                f"by {name} is not that of the constant; give the slope by hand."
            )
        return make("where", args[0], inner[1], inner[2])
    if word == "powi":
        lower = args[0] if one.note == 2 else make("powi", args[0], note=one.note - 1)
        return times(times(const(one.note), lower), inner[0])
    total = _ZERO
    for factor, d in zip(_slopes(one, inner), inner, strict=True):
        if not is_number(d, 0):
            total = plus(total, times(factor, d))
    return total


def _holds_at_points(condition: Expr, name: str) -> bool:
    """Whether it asks for equality of something that depends on the input."""
    return any(
        one.word == "eq" and one.args[0] is not one.args[1] and name in inputs_of([one])
        for one in order(condition)
    )


def _slopes(one: Expr, inner: list[Expr]) -> list[Expr]:
    """The slopes of a word or of another formula by each operand; 0 where none is asked for."""
    if one.word == "call":
        return _of_call(one, [not is_number(d, 0) for d in inner])
    if one.word not in SLOPES:
        if one.word in ("floor", "ceil", "trunc", "rint", "sign"):
            return [_ZERO] * len(inner)
        raise NoSlope(f"the word {one.word} has no slope")
    operands = [Traced(arg) for arg in one.args]
    return [expression(made) for made in SLOPES[one.word](words, *operands, Traced(one))]


def _of_call(one: Expr, wanted: list[bool]) -> list[Expr]:
    formula: Formula
    formula, key, _ = one.note
    options = dict(key)
    names = [name for name in formula.tensors if name not in options]
    given = dict(zip(names, one.args, strict=True))
    made = [_ZERO] * len(one.args)
    for number, name in enumerate(names):
        if wanted[number]:
            made[number] = formula.slope_at(name, given, options, out=one)
    return made


def mechanical(formula: Formula, name: str, options: dict[str, Any]) -> Expr:
    """The slope from the formula's own body, of inputs by their names and of `out`."""
    body = formula.body(options)
    made = slope(body, name)
    return replaced(made, {body: symbol("out")}) if body.word != "input" else made


def adjoint(formula: Formula, name: str, options: dict[str, Any]) -> Expr:
    """`gradient` times the slope by one input, of that formula's own inputs and `out`."""
    return times(symbol("gradient"), slope_of(formula, name, options))


def slope_of(formula: Formula, name: str, options: dict[str, Any]) -> Expr:
    """The slope by one input, of the formula's inputs, and of `out` where it is by hand and asks.

    The result is not saved for a derived one, which computes it anew where it needs it.
    """
    given = {one: symbol(one) for one in formula.tensors if options.get(one, one) is not None}
    out = symbol("out") if name in formula.slopes else formula.called([*given.values()], options)
    return formula.slope_at(name, given, options, out=out)
