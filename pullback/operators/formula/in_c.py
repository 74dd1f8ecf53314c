"""Formulas and their words as C, which CUDA's compiler reads too."""

from __future__ import annotations

import math
from typing import Any

from pullback.operators.formula.formulas import expanded
from pullback.operators.formula.language import BOOLEAN, Expr, number_of, order
from pullback.operators.formula.words import C_FUNCTIONS, WORDS

__all__ = ["number", "one_expression", "power", "word"]

# Names of the functions for each type: C's, or those that C++ has for all types at once.
_FUNCTIONS = {
    "double": {name: name for name in C_FUNCTIONS},
    "float": {name: name + "f" for name in C_FUNCTIONS},
    "T": {name: name for name in C_FUNCTIONS},
}
_KNOWN = frozenset(name for name, one in WORDS.items() if one.c) | {"powi"}


def number(value: Any, type_name: str) -> str:
    """A floating-point number as C writes it; `T` is a type that the text leaves open."""
    if math.isnan(value):
        return "NAN" if type_name != "T" else "T(NAN)"
    if math.isinf(value):
        text = "INFINITY" if value > 0 else "-INFINITY"
        return text if type_name != "T" else f"T({text})"
    text = repr(float(value))
    return f"T({text})" if type_name == "T" else text + ("f" if type_name == "float" else "")


def word(name: str, terms: list[str], type_name: str) -> str:
    """A word of operands in C; each is read as one term."""
    given = [f"({one})" if one.startswith("-") else one for one in terms]
    functions = _FUNCTIONS.get(type_name) or _FUNCTIONS["double"]  # whole numbers and truths
    return WORDS[name].c.format(*given, **functions)


def power(x: str, n: int, type_name: str) -> str:
    """A whole power by products, half of it squared."""

    def product(n: int) -> str:
        if n < 4:
            return " * ".join([x] * n)
        half = f"({product(n // 2)})"
        return f"{half} * {half}" + (f" * {x}" if n % 2 else "")

    if n == 0:
        return number(1, type_name) if type_name in _FUNCTIONS else "1"
    return f"1 / ({product(-n)})" if n < 0 else product(n)


def one_expression(root: Expr, operands: list[str], *, longest: int = 20000) -> str | None:
    """The formula as one expression of the type `T`; inputs are x0, x1 ... in this order.

    Compilers find what is common. None where that would be too long, or a word is missing.
    """
    body = expanded(root, "c", "", _KNOWN)
    text: dict[Expr, str] = {}
    for one in order(body):
        terms = [text[arg] for arg in one.args]
        if one.word == "input":
            text[one] = f"x{operands.index(one.note)}"
        elif one.word == "const":
            value = number_of(one)
            assert value is not None
            text[one] = number(value, "T")
        elif one.word == "powi":
            text[one] = f"({power(terms[0], one.note, 'T')})"
        elif one.word in _KNOWN:
            made = word(one.word, terms, "T")
            text[one] = f"({made})" if one.word in BOOLEAN else f"T({made})"
        else:
            return None
        if len(text[one]) > longest:
            return None
    return text[body]
