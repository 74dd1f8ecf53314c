"""The words of formulas: what each is in NumPy and in C, and its slopes. One row is one word.

C is C++ as well, which CUDA's compiler reads: `{0}` and `{1}` are operands, each one term, and
`{exp}` is the function for the dtype at hand (`exp` or `expf`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["C_FUNCTIONS", "HOLOMORPHIC", "NUMPY", "SLOPES", "WORDS", "Word"]

_ROOT_PI = math.sqrt(math.pi)


class Word(NamedTuple):
    """One word: NumPy's function ("" where it has none), C's expression, slopes by operand.

    Slopes are a function of the namespace of words, the operands and the value itself; they give
    one for each operand. None: it has none, and is flat.
    """

    numpy: str
    c: str
    slopes: Callable[..., list[Any]] | None = None
    holomorphic: bool = False  # one complex derivative: the adjoint is the conjugate of the slope


def _share(xp: Any, a: Any, b: Any, loses: Any) -> Any:
    """Half of the slope at a tie, as in torch; NaN goes to both."""
    return xp.where(a == b, 0.5, xp.where(loses, 0.0, 1.0))


def _angle(xp: Any, y: Any, x: Any) -> list[Any]:
    far = xp.hypot(y, x)  # squares would overflow, and vanish
    origin = far == 0.0
    return [xp.where(origin, 0.0, x / far / far), -xp.where(origin, 0.0, y / far / far)]


def _power(xp: Any, x: Any, n: Any, out: Any) -> list[Any]:
    of_base = xp.where(n == 0.0, 0.0, n * xp.power(x, n - 1))
    return [of_base, xp.where((x == 0.0) & (n >= 0.0), 0.0, out * xp.log(x))]


WORDS = {
    # Arithmetic, whose rules are in `derive`.
    "add": Word("add", "{0} + {1}", holomorphic=True),
    "sub": Word("subtract", "{0} - {1}", holomorphic=True),
    "mul": Word("multiply", "{0} * {1}", holomorphic=True),
    "div": Word("divide", "{0} / {1}", holomorphic=True),
    "neg": Word("negative", "-{0}", holomorphic=True),
    "where": Word("where", "{0} ? {1} : {2}"),
    "recip": Word("reciprocal", "1 / {0}", lambda xp, x, out: [-(out * out)], True),
    "sqrt": Word("sqrt", "{sqrt}({0})", lambda xp, x, out: [0.5 / out], True),
    "rsqrt": Word("", "1 / {sqrt}({0})", lambda xp, x, out: [-0.5 * (out * out * out)], True),
    "abs": Word("absolute", "{fabs}({0})", lambda xp, x, out: [xp.sign(x)]),
    # Zeros and NaN are their own signs.
    "sign": Word("sign", "{0} > 0 ? 1 : {0} < 0 ? -1 : {0}"),
    "copysign": Word(
        "copysign", "{copysign}({0}, {1})",
        lambda xp, x, y, out: [xp.where(x == 0.0, 0.0, out / x), 0.0],
    ),
    # Exponentials.
    "exp": Word("exp", "{exp}({0})", lambda xp, x, out: [out], True),
    "exp2": Word("exp2", "{exp2}({0})", lambda xp, x, out: [out * math.log(2)], True),
    "expm1": Word("expm1", "{expm1}({0})", lambda xp, x, out: [out + 1], True),
    "log": Word("log", "{log}({0})", lambda xp, x, out: [1 / x], True),
    "log1p": Word("log1p", "{log1p}({0})", lambda xp, x, out: [1 / (1 + x)], True),
    "log2": Word("log2", "{log2}({0})", lambda xp, x, out: [1 / (x * math.log(2))], True),
    "log10": Word("log10", "{log10}({0})", lambda xp, x, out: [1 / (x * math.log(10))], True),
    "logaddexp": Word("logaddexp", ""),  # of NumPy alone, quick on few elements
    "sigmoid": Word("", "1 / (1 + {exp}(-{0}))", lambda xp, x, out: [(1 - out) * out], True),
    # Circles and hyperbolas.
    "sin": Word("sin", "{sin}({0})", lambda xp, x, out: [xp.cos(x)], True),
    "cos": Word("cos", "{cos}({0})", lambda xp, x, out: [-xp.sin(x)], True),
    "tan": Word("tan", "{tan}({0})", lambda xp, x, out: [1 + out * out], True),
    "sinh": Word("sinh", "{sinh}({0})", lambda xp, x, out: [xp.cosh(x)], True),
    "cosh": Word("cosh", "{cosh}({0})", lambda xp, x, out: [xp.sinh(x)], True),
    "tanh": Word("tanh", "{tanh}({0})", lambda xp, x, out: [1 - out * out], True),
    "asin": Word("arcsin", "{asin}({0})", lambda xp, x, out: [1 / xp.sqrt(1 - x * x)], True),
    "acos": Word("arccos", "{acos}({0})", lambda xp, x, out: [-1 / xp.sqrt(1 - x * x)], True),
    "atan": Word("arctan", "{atan}({0})", lambda xp, x, out: [1 / (1 + x * x)], True),
    "asinh": Word("arcsinh", "{asinh}({0})", lambda xp, x, out: [1 / xp.sqrt(x * x + 1)], True),
    "acosh": Word("arccosh", "{acosh}({0})", lambda xp, x, out: [1 / xp.sqrt(x * x - 1)], True),
    "atanh": Word("arctanh", "{atanh}({0})", lambda xp, x, out: [1 / (1 - x * x)], True),
    "atan2": Word("arctan2", "{atan2}({0}, {1})", lambda xp, y, x, out: _angle(xp, y, x)),
    "hypot": Word("hypot", "{hypot}({0}, {1})", lambda xp, x, y, out: [x / out, y / out]),
    # The normal law; SciPy's, where it is installed.
    "erf": Word("", "{erf}({0})", lambda xp, x, out: [2 / _ROOT_PI * xp.exp(-(x * x))]),
    "erfc": Word("", "{erfc}({0})", lambda xp, x, out: [-2 / _ROOT_PI * xp.exp(-(x * x))]),
    "ndtr": Word("", ""),
    # Powers and remainders.
    "powi": Word("", "", holomorphic=True),
    "pow": Word("power", "{pow}({0}, {1})", _power),
    "fmod": Word("fmod", "{fmod}({0}, {1})"),
    "lgamma": Word("", "{lgamma}({0})"),
    # Of two the one.
    "maximum": Word(
        "maximum", "{0} != {0} || {0} > {1} ? {0} : {1}",
        lambda xp, a, b, out: [_share(xp, a, b, a < b), _share(xp, a, b, a > b)],
    ),
    "minimum": Word(
        "minimum", "{0} != {0} || {0} < {1} ? {0} : {1}",
        lambda xp, a, b, out: [_share(xp, a, b, a > b), _share(xp, a, b, a < b)],
    ),
    # Steps, which are flat.
    "floor": Word("floor", "{floor}({0})"),
    "ceil": Word("ceil", "{ceil}({0})"),
    "trunc": Word("trunc", "{trunc}({0})"),
    "rint": Word("rint", "{rint}({0})"),
    "lt": Word("less", "{0} < {1}"),
    "le": Word("less_equal", "{0} <= {1}"),
    "gt": Word("greater", "{0} > {1}"),
    "ge": Word("greater_equal", "{0} >= {1}"),
    "eq": Word("equal", "{0} == {1}"),
    "ne": Word("not_equal", "{0} != {1}"),
    "not": Word("logical_not", "!{0}"),
    "and": Word("logical_and", "{0} & {1}"),
    "or": Word("logical_or", "{0} | {1}"),
    "xor": Word("logical_xor", "{0} ^ {1}"),
}  # fmt: skip
SLOPES = {name: one.slopes for name, one in WORDS.items() if one.slopes is not None}
HOLOMORPHIC = frozenset(name for name, one in WORDS.items() if one.holomorphic)
# NumPy's function -> the word.
NUMPY = {one.numpy: name for name, one in WORDS.items() if one.numpy}
NUMPY |= {"abs": "abs", "fabs": "abs", "true_divide": "div"}
# Functions of C's library that the expressions name.
C_FUNCTIONS = ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign",
               "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "floor", "fmod",
               "hypot", "lgamma", "log", "log10", "log1p", "log2", "pow", "rint", "sin", "sinh",
               "sqrt", "tan", "tanh", "trunc")  # fmt: skip
