"""Arithmetic of integers: sums and products wrap around, as NumPy's do."""

from __future__ import annotations

from typing import Any

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val
from pullback.compiled.lower.rules import NotLowered

__all__ = ["INTEGERS", "of_integers"]

INTEGERS = ("i4", "i8")
_WORDS = {
    "add": "add", "sub": "sub", "rsub": "sub", "mul": "mul", "neg": "neg", "abs": "abs",
    "maximum": "maximum", "minimum": "minimum", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
}  # fmt: skip


def of_integers(b: Builder, name: str, given: dict[str, Any]) -> Val | None:
    """The value of an operator's call on integers of one kind; None where it is no such call."""
    word = _WORDS.get(name)
    values = [one for one in given.values() if isinstance(one, Val)]
    if word is None or not values or any(v.dtype not in INTEGERS for v in values):
        return None
    if any(v.dtype != values[0].dtype for v in values):
        raise NotLowered
    alpha = given.get("alpha", 1)
    if alpha.__class__ is not int:
        raise NotLowered
    if name == "rsub":
        values = values[::-1]
    if alpha != 1:
        values[1] = b.ew("mul", values[1], b.const(alpha, values[1].dtype))
    return b.ew(word, *values)
