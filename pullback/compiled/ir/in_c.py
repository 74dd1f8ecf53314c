"""Elementwise values and numbers of the array language as C; words are those of formulas."""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.ir.values import Val
from pullback.operators.formula.in_c import power, word

__all__ = ["TYPES", "expression", "number"]

TYPES = {
    "f4": "float", "f8": "double", "b1": "unsigned char", "i8": "long long", "i4": "int",
    "i2": "short", "i1": "signed char", "u1": "unsigned char",
}  # fmt: skip
# Of whole numbers, by one that is not 0; rounded down.
_DIVIDED = {
    "floordiv": "({_type})({0} / {1} - (({0} % {1} != 0) && (({0} < 0) != ({1} < 0))))",
    "remainder": "({_type})(({0} % {1} != 0) && (({0} < 0) != ({1} < 0)) "
                 "? {0} % {1} + {1} : {0} % {1})",
}  # fmt: skip
_OF_WHOLE = {"abs": "{0} < 0 ? -{0} : {0}", "not": "~{0}"}


def number(value: Any, dtype: str) -> str:
    """A number as C writes it."""
    if dtype[0] != "f":
        return str(int(value)) if int(value) > -(2**63) else "(-9223372036854775807LL - 1)"
    if value == "nan" or (isinstance(value, float) and math.isnan(value)):
        return "NAN"
    if isinstance(value, float) and math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(float(value)) + ("f" if dtype == "f4" else "")


def expression(v: Val, read: list[str]) -> str:
    """What an elementwise value is, of operands in C; each is read as one term."""
    if v.op == "copy":
        return read[0]
    if v.op == "cast" and v.dtype == "b1":
        return f"{_term(read[0])} != 0"
    if v.op in ("floordiv", "remainder"):
        return _DIVIDED[v.op].format(*map(_term, read), _type=TYPES[v.dtype])
    if v.op == "cast":
        return f"({TYPES[v.dtype]}){_term(read[0])}"
    if v.op == "powi":
        return power(_term(read[0]), v.attr, TYPES[v.dtype])
    if v.dtype[0] in "iu" and v.op in _OF_WHOLE:
        return _OF_WHOLE[v.op].format(*map(_term, read))
    return word(v.op, read, TYPES[v.dtype])


def _term(text: str) -> str:
    return f"({text})" if text.startswith("-") else text
