"""What Python's signs call.

Their own file because some are not just the operator: reflected forms (`2 - x` calls x), and signs
that answer where the operator fails (`x == None`).
"""

from __future__ import annotations

from typing import Any

from pullback.operators.arithmetic import (
    add,
    divide_number,
    mul,
    neg,
    positive,
    rsub,
    sub,
    true_divide,
)
from pullback.operators.comparison import (
    bitwise_and,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    eq,
    ge,
    gt,
    le,
    lt,
    ne,
)
from pullback.operators.direction import abs
from pullback.operators.inplace import inplace_of
from pullback.operators.powers import pow, pow_
from pullback.operators.rounding import floor_divide, remainder

__all__ = ["SIGNS"]


def _equals(input: Any, other: Any) -> Any:
    # What is neither tensor nor number is just not equal: `x == None`, `x in things`.
    try:
        return eq(input, other)
    except TypeError:
        return NotImplemented


def _differs(input: Any, other: Any) -> Any:
    try:
        return ne(input, other)
    except TypeError:
        return NotImplemented


def _inverted(input: Any) -> Any:
    try:
        return bitwise_not(input)
    except NotImplementedError as error:
        raise TypeError(str(error)) from None


def _reflected(function: Any) -> Any:
    """The sign of `function` with its operands exchanged."""

    def sign(input: Any, other: Any) -> Any:
        return function(other, input)

    return sign


SIGNS: dict[str, Any] = {
    "__abs__": abs,
    "__neg__": neg,
    "__pos__": positive,
    "__invert__": _inverted,
    "__add__": add,
    "__radd__": add,
    "__sub__": sub,
    "__rsub__": rsub,
    "__mul__": mul,
    "__rmul__": mul,
    "__truediv__": true_divide,
    "__rtruediv__": divide_number,
    "__div__": true_divide,
    "__rdiv__": divide_number,
    "__floordiv__": floor_divide,
    "__rfloordiv__": _reflected(floor_divide),
    "__mod__": remainder,
    "__rmod__": _reflected(remainder),
    "__pow__": pow,
    "__rpow__": _reflected(pow),
    "__eq__": _equals,
    "__ne__": _differs,
    "__lt__": lt,
    "__le__": le,
    "__gt__": gt,
    "__ge__": ge,
    "__and__": bitwise_and,
    "__rand__": bitwise_and,
    "__or__": bitwise_or,
    "__ror__": bitwise_or,
    "__xor__": bitwise_xor,
    "__rxor__": bitwise_xor,
    "__lshift__": bitwise_left_shift,
    "__rlshift__": _reflected(bitwise_left_shift),
    "__rshift__": bitwise_right_shift,
    "__rrshift__": _reflected(bitwise_right_shift),
    "__iadd__": inplace_of(add),
    "__isub__": inplace_of(sub),
    "__imul__": inplace_of(mul),
    "__itruediv__": inplace_of(true_divide, "div_"),
    "__idiv__": inplace_of(true_divide, "div_"),
    "__ifloordiv__": inplace_of(floor_divide),
    "__imod__": inplace_of(remainder),
    "__ipow__": pow_,
    "__iand__": inplace_of(bitwise_and),
    "__ior__": inplace_of(bitwise_or),
    "__ixor__": inplace_of(bitwise_xor),
    "__ilshift__": inplace_of(bitwise_left_shift),
    "__irshift__": inplace_of(bitwise_right_shift),
}
