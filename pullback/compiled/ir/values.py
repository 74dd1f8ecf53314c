"""Values of the array language: what each is made of, and where it lies.

    input const iota        where numbers come from
    words of EW             each element from the elements at its place; operands broadcast
    sum max                 reductions; reduced dimensions stay, with length 1
    view expand             other strides on the same memory (base, offset, strides in elements)
    dot                     (batch.., m, k) x (batch.., k, n)
    pad padsum cat          movement
    put                     a value with a part of it written over
    take place              elements of a value where indices say, and the way back: see indexed.py
    scan                    running sums along a dimension
    maxpool avgpool .. putplaces   pooling and the way back: see pooling.py
    beside                  what a step makes besides its value
    conv convsum room       convolutions and their gradients, and memory for them: see windows.py
    call result             an eager kernel between native parts, and what it gives

Shapes and dtypes are static. Every value that is neither a view nor an input is row-major.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["BYTES", "COST", "EW", "HALVES", "LIBM", "REDUCTIONS", "SIZES", "Val", "broadcast",
           "contiguous", "live_values", "view_strides"]  # fmt: skip

# Functions of the C library, by the number of their operands.
LIBM = {
    **dict.fromkeys(("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "erfc", "exp2"), 1),
    **dict.fromkeys(("lgamma", "log10", "log2", "sinh"), 1),
    **dict.fromkeys(("atan2", "fmod", "hypot", "pow"), 2),
}
EW = frozenset(
    [
        *LIBM,
        "abs",
        "add",
        "and",
        "cast",
        "ceil",
        "copy",
        "copysign",
        "cos",
        "div",
        "eq",
        "erf",
        "exp",
        "expm1",
        "floor",
        "floordiv",
        "ge",
        "gt",
        "le",
        "log",
        "log1p",
        "lt",
        "maximum",
        "minimum",
        "mul",
        "ne",
        "neg",
        "not",
        "or",
        "powi",
        "recip",
        "remainder",
        "rint",
        "rsqrt",
        "sigmoid",
        "sign",
        "sin",
        "sqrt",
        "sub",
        "take",
        "tanh",
        "trunc",
        "where",
        "xor",
    ]
)
REDUCTIONS = frozenset({"sum", "max"})
# What an element of each costs, in additions; 1 where nothing is said.
COST = {
    **dict.fromkeys(("exp", "expm1", "tanh", "erf", "log", "sigmoid"), 10),
    **dict.fromkeys(("sin", "cos"), 16),
    **dict.fromkeys(("sqrt", "rsqrt", "recip", "div"), 4),
    **dict.fromkeys(LIBM, 40),
    "log1p": 12,
    "powi": 4,
    "take": 4,
}
BYTES = {"f4": 4, "f8": 8, "b1": 1, "i8": 8, "i4": 4, "i2": 2, "i1": 1, "u1": 1}
# Half precision (float16 and bfloat16) is computed with in single, and rounded after each operator.
HALVES = ("h2", "w2")
# What can be moved: with halves, and complex numbers as they lie.
SIZES = {**BYTES, "h2": 2, "w2": 2, "c8": 8, "c16": 16}


class Val:
    """One value; equal ones are one object, see `Builder`."""

    __slots__ = (
        "attr", "base", "dtype", "id", "ins", "off", "op", "origin", "shape", "strides",
    )  # fmt: skip

    id: int
    op: str
    ins: tuple[Val, ...]
    attr: Any
    shape: tuple[int, ...]
    dtype: str
    origin: Any
    base: Val  # whose memory it looks at; itself if it has its own
    off: int
    strides: tuple[int, ...]

    def __repr__(self) -> str:
        ins = ", ".join(f"%{one.id}" for one in self.ins)
        attr = "" if self.attr is None else f" {self.attr!r}"
        where = "" if not self.is_view else f" @%{self.base.id}+{self.off}{self.strides}"
        return f"%{self.id}: {self.dtype}{list(self.shape)} = {self.op}({ins}){attr}{where}"

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_view(self) -> bool:
        """Whether it looks at the memory of another value."""
        return self.base is not self

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return SIZES.get(self.dtype) or int(self.dtype[1:])


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all of these broadcast to."""
    rank = max([len(shape) for shape in shapes], default=0)
    made: list[Any] = [1] * rank
    for shape in shapes:
        for place, n in enumerate(shape, rank - len(shape)):
            if made[place] == 1:
                made[place] = n
            elif n != 1 and n != made[place]:
                raise ValueError(f"shapes {shapes} do not broadcast")
    return tuple(made)


def view_strides(
    shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]
) -> tuple[int, ...] | None:
    """Strides of a reshape without a copy; None where one is needed (NumPy's rule)."""
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    if not old:
        return contiguous(new)
    merged = [old[0]]
    for n, s in old[1:]:
        size, step = merged[-1]
        if step == n * s:
            merged[-1] = (size * n, s)
        else:
            merged.append((n, s))
    out = [0] * len(new)
    left: Any = 0
    for i in reversed(range(len(new))):
        n = new[i]
        if n == 1:
            continue
        if left == 0:
            if not merged:
                return None
            left, step = merged.pop()
        if left % n != 0:
            return None
        out[i] = step
        step *= n
        left //= n
        if left == 1:
            left = 0
    return tuple(out) if left == 0 and not merged else None


def live_values(values: list[Val], outputs: list[Val]) -> list[Val]:
    """Those that outputs depend on, in order."""
    seen: set[int] = set()
    stack = list(outputs)
    while stack:
        one = stack.pop()
        if one.id in seen:
            continue
        seen.add(one.id)
        stack += one.ins
        if one.is_view:
            stack.append(one.base)
    return [one for one in values if one.id in seen]
