"""What Python's operators call.

Their own file because they are not just the operators: reflected forms (`2 - x` calls x), and
operands that no operator knows (`x == None`, objects with an `__radd__`) are left to Python.
"""

from __future__ import annotations

from typing import Any

from pullback.operators.attach.give_way import caught, gives_way, reflected, written_in_place
from pullback.operators.pointwise.arithmetic import (
    add,
    divide_number,
    mul,
    neg,
    positive,
    rsub,
    sub,
    true_divide,
)
from pullback.operators.pointwise.comparison import (
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
from pullback.operators.pointwise.direction import abs
from pullback.operators.pointwise.powers import pow, pow_
from pullback.operators.pointwise.rounding import floor_divide, remainder

__all__ = ["DUNDERS"]


def _inverted(input: Any) -> Any:
    try:
        return bitwise_not(input)
    except NotImplementedError as error:
        raise TypeError(str(error)) from None


DUNDERS: dict[str, Any] = {
    "__abs__": abs,
    "__neg__": neg,
    "__pos__": positive,
    "__invert__": _inverted,
    "__add__": gives_way(add, "__add__"),
    "__radd__": gives_way(add, "__radd__"),
    "__sub__": gives_way(sub, "__sub__"),
    "__rsub__": gives_way(rsub, "__rsub__"),
    "__mul__": gives_way(mul, "__mul__"),
    "__rmul__": gives_way(mul, "__rmul__"),
    "__truediv__": gives_way(true_divide, "__truediv__"),
    "__rtruediv__": gives_way(divide_number, "__rtruediv__"),
    "__div__": gives_way(true_divide, "__div__"),
    "__rdiv__": gives_way(divide_number, "__rdiv__"),
    "__floordiv__": gives_way(floor_divide, "__floordiv__"),
    "__rfloordiv__": reflected(floor_divide),
    "__mod__": gives_way(remainder, "__mod__"),
    "__rmod__": reflected(remainder),
    "__pow__": gives_way(pow, "__pow__"),
    "__rpow__": reflected(pow),
    "__eq__": gives_way(eq, "__eq__"),
    "__ne__": gives_way(ne, "__ne__"),
    "__lt__": gives_way(lt, "__lt__"),
    "__le__": gives_way(le, "__le__"),
    "__gt__": gives_way(gt, "__gt__"),
    "__ge__": gives_way(ge, "__ge__"),
    "__and__": gives_way(bitwise_and, "__and__"),
    "__rand__": gives_way(bitwise_and, "__rand__"),
    "__or__": gives_way(bitwise_or, "__or__"),
    "__ror__": gives_way(bitwise_or, "__ror__"),
    "__xor__": gives_way(bitwise_xor, "__xor__"),
    "__rxor__": gives_way(bitwise_xor, "__rxor__"),
    "__lshift__": gives_way(bitwise_left_shift, "__lshift__"),
    "__rlshift__": reflected(bitwise_left_shift),
    "__rshift__": gives_way(bitwise_right_shift, "__rshift__"),
    "__rrshift__": reflected(bitwise_right_shift),
    "__iadd__": written_in_place(add),
    "__isub__": written_in_place(sub),
    "__imul__": written_in_place(mul),
    "__itruediv__": written_in_place(true_divide, "div_"),
    "__idiv__": written_in_place(true_divide, "div_"),
    "__ifloordiv__": written_in_place(floor_divide),
    "__imod__": written_in_place(remainder),
    "__ipow__": caught(pow_),
    "__iand__": written_in_place(bitwise_and),
    "__ior__": written_in_place(bitwise_or),
    "__ixor__": written_in_place(bitwise_xor),
    "__ilshift__": written_in_place(bitwise_left_shift),
    "__irshift__": written_in_place(bitwise_right_shift),
}
