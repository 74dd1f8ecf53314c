"""Arithmetic of integers and truth values: sums and products wrap around, as NumPy's do."""

from __future__ import annotations

from typing import Any

from pullback.compiled.ir.builder import Builder, number_of
from pullback.compiled.ir.symbols import Symbolic
from pullback.compiled.ir.values import Val
from pullback.compiled.llvm.words import can_cast
from pullback.compiled.lower.rules import NotLowered, dims_of

__all__ = ["INTEGERS", "of_integers"]

INTEGERS = ("i1", "i2", "i4", "i8", "u1")
_WHOLE = (*INTEGERS, "b1")
_WORDS = {
    "add": "add", "sub": "sub", "rsub": "sub", "mul": "mul", "neg": "neg", "abs": "abs",
    "maximum": "maximum", "minimum": "minimum", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "bitwise_not": "not", "floor_divide": "floordiv",
    "remainder": "remainder",
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
}  # fmt: skip
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
_OF_TRUTH = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", *_COMPARISONS}
_LIMITS = {"clamp.Scalar", "clamp_min.Scalar", "clamp_max.Scalar"}
_SUMS = {"sum.full", "sum"}
_HERE = {"floor_divide", "remainder"}  # in machine code alone


def of_integers(
    b: Builder, name: str, given: dict[str, Any], result: str, *, stored: bool
) -> Val | None:
    """The value of an operator's call on integers of one kind; None where it is no such call.

    `result` is the dtype that the call gives. Without `stored`, what kernels of devices have.
    """
    values = [one for one in given.values() if isinstance(one, Val)]
    if not values or any(v.dtype not in _WHOLE for v in values):
        return None
    if not stored and (name in _SUMS or name in _LIMITS or name in _HERE):
        return None
    if name in _SUMS:
        return _sum(b, values[0], given, result)
    if name in _LIMITS:
        return _limited(b, values[0], given)
    word = _WORDS.get(name)
    if word is None:
        return None
    if any(v.dtype != values[0].dtype for v in values):
        raise NotLowered
    if values[0].dtype == "b1" and name not in _OF_TRUTH:
        raise NotLowered
    if word in ("floordiv", "remainder"):
        divisor = number_of(b.strip(values[1]))
        if divisor is None or isinstance(divisor, Symbolic) or divisor in (0, -1):
            raise NotLowered  # an error of eager's, or no such number
        return b.ew(word, *values)
    alpha = given.get("alpha", 1)
    if alpha.__class__ is not int:
        raise NotLowered
    if name == "rsub":
        values = values[::-1]
    if alpha != 1:
        values[1] = b.ew("mul", values[1], b.const(alpha, values[1].dtype))
    return b.ew(word, *values, dtype="b1" if name in _COMPARISONS else values[0].dtype)


def _sum(b: Builder, x: Val, given: dict[str, Any], result: str) -> Val:
    """Summed in the dtype of the result."""
    if result not in ("i4", "i8") or not can_cast(x.dtype, result):
        raise NotLowered
    x = b.ew("cast", x, dtype=result)
    if not x.shape:
        return x
    dims = dims_of(given.get("dim"), len(x.shape))
    return b.reduce("sum", x, dims, keep=given.get("keepdim", False))


def _limited(b: Builder, x: Val, given: dict[str, Any]) -> Val:
    if x.dtype not in ("i4", "i8"):
        raise NotLowered
    most = 2 ** (8 * x.itemsize - 1)
    for word, name in (("maximum", "min"), ("minimum", "max")):  # the upper one wins
        limit = given.get(name)
        if limit is None:
            continue
        if limit.__class__ is not int or not -most <= limit < most:
            raise NotLowered
        x = b.ew(word, x, b.const(limit, x.dtype))
    return x
