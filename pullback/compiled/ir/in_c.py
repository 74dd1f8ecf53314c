"""Elementwise words and numbers of the array language as C, which CUDA's compiler reads too."""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.ir.values import Val

__all__ = ["TYPES", "expression", "number"]

TYPES = {"f4": "float", "f8": "double", "b1": "unsigned char", "i8": "long long", "i4": "int"}
_WORDS = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}",
    "and": "{0} & {1}", "or": "{0} | {1}", "xor": "{0} ^ {1}", "not": "!{0}", "copy": "{0}",
    "eq": "{0} == {1}", "ne": "{0} != {1}", "lt": "{0} < {1}", "le": "{0} <= {1}",
    "gt": "{0} > {1}", "ge": "{0} >= {1}", "where": "{0} ? {1} : {2}", "recip": "1 / {0}",
    "rsqrt": "1 / {sqrt}({0})", "sigmoid": "1 / (1 + {exp}(-{0}))",
    "maximum": "{0} != {0} || {0} > {1} ? {0} : {1}",
    "minimum": "{0} != {0} || {0} < {1} ? {0} : {1}",
    # Zeros and NaN are their own signs.
    "sign": "{0} > 0 ? 1 : {0} < 0 ? -1 : {0}", "abs": "{fabs}({0})",
    "copysign": "{copysign}({0}, {1})",
}  # fmt: skip
_OF_WHOLE = {"abs": "{0} < 0 ? -{0} : {0}"}
_MATHS = ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos",
          "cosh", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "floor", "fmod", "hypot", "lgamma",
          "log", "log10", "log1p", "log2", "pow", "rint", "sin", "sinh", "sqrt", "tanh",
          "trunc")  # fmt: skip


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
    single = v.dtype == "f4"
    maths = {name: name + ("f" if single else "") for name in _MATHS}
    terms = [f"({one})" if one.startswith("-") else one for one in read]
    if v.op == "cast":
        return f"({TYPES[v.dtype]}){terms[0]}"
    if v.op == "powi":
        return _power(terms[0], v.attr, v.dtype)
    if v.op in maths and v.op not in _WORDS:
        return f"{maths[v.op]}({', '.join(read)})"
    words = _OF_WHOLE.get(v.op) if v.dtype[0] != "f" else None
    return (words or _WORDS[v.op]).format(*terms, **maths)


def _power(x: str, n: int, dtype: str) -> str:
    """A whole power by products, half of it squared."""

    def product(n: int) -> str:
        if n < 4:
            return " * ".join([x] * n)
        half = f"({product(n // 2)})"
        return f"{half} * {half}" + (f" * {x}" if n % 2 else "")

    if n == 0:
        return number(1, dtype)
    return f"1 / ({product(-n)})" if n < 0 else product(n)
