"""NumPy's functions of one or several elements, for numbers of any type.

Each becomes a ufunc over objects: by Python's operators, by comparisons, by the table of the type,
or by way of other functions of the table.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from pullback.core.numbers.types import NumberType

__all__ = [
    "COMPARISONS",
    "TRUTHS",
    "compared",
    "decided",
    "derived",
    "torch_name",
    "truth",
    "ufunc_of",
]

Function = Callable[..., Any]

# NumPy's names that differ from torch's, under which tables have their functions.
_TORCH_NAMES = {
    "absolute": "abs",
    "fabs": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "rint": "round",
    "power": "pow",
    "float_power": "pow",
}
# NumPy's own loop over objects, which asks Python's operators.
_BY_PYTHON = frozenset({"add", "subtract", "multiply", "matmul",
                        "vecdot", "matvec", "vecmat"})  # fmt: skip
COMPARISONS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"})
TRUTHS = COMPARISONS | {"logical_and", "logical_or", "logical_xor", "logical_not",
                        "isnan", "isinf", "isfinite", "signbit"}  # fmt: skip
_IDENTITIES = {"logical_and": True, "logical_or": False}


def torch_name(name: str) -> str:
    """Torch's name of a function of NumPy's."""
    return _TORCH_NAMES.get(name, name)


def ufunc_of(numbers: NumberType, ufunc: Any) -> Any:
    """What computes a ufunc on arrays of such objects; None where the type has no such function."""
    name = ufunc.__name__
    if name in _BY_PYTHON:
        return ufunc
    made = numbers.made.get(name)
    if made is None:
        function = _function(numbers, name)
        if function is None:
            return None
        nout = ufunc.nout
        identity = {"identity": _IDENTITIES[name]} if name in _IDENTITIES else {}
        made = numbers.made[name] = numpy.frompyfunc(function, ufunc.nin, nout, **identity)
    return made


def _function(numbers: NumberType, name: str) -> Function | None:
    if name in COMPARISONS:
        return compared(numbers, name)
    if name in _LOGIC:
        logic = _LOGIC[name]
        return lambda *values: logic(*[truth(numbers, one) for one in values])
    return numbers.function(torch_name(name))


_LOGIC: dict[str, Function] = {
    "logical_and": lambda a, b: a and b,
    "logical_or": lambda a, b: a or b,
    "logical_xor": lambda a, b: a != b,
    "logical_not": lambda a: not a,
}


# Comparisons --------------------------------------------------------------------------------------


def compared(numbers: NumberType, name: str) -> Function:
    """One of Python's comparisons, whose answer is yes or no, or an error."""
    own = numbers.functions.get(name)
    if own is not None:
        return lambda a, b: decided(numbers, own(a, b), a, b)
    if numbers.encloses:
        certain = _CERTAIN[name]
        return lambda a, b: decided(numbers, certain(a, b), a, b)
    python: Function = _PYTHON[name]
    return lambda a, b: decided(numbers, python(a, b), a, b)


def decided(numbers: NumberType, answer: Any, a: Any, b: Any) -> bool:
    """The answer to a comparison; an error where the numbers do not tell."""
    if answer is True or answer is False:
        return answer
    if answer is not None:
        try:
            return bool(answer)  # such as SymPy's own True
        except TypeError:
            pass
    raise RuntimeError(
        f"Whether {a} is less than, equal to or greater than {b} is not decided by these numbers "
        f"of type {numbers.name}, and the result depends on it. Use narrower numbers, or functions "
        "without a condition."
    )


def truth(numbers: NumberType, value: Any) -> bool:
    """Whether a number is other than zero."""
    if isinstance(value, bool):
        return value
    return bool(compared(numbers, "not_equal")(value, numbers.convert(0)))


_PYTHON: dict[str, Function] = {
    "less": lambda a, b: a < b,
    "less_equal": lambda a, b: a <= b,
    "greater": lambda a, b: a > b,
    "greater_equal": lambda a, b: a >= b,
    "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b,
}


def _certainly(yes: bool | None, no: bool | None) -> bool | None:
    """Of two that exclude one another, each true where it is certain."""
    if yes:
        return True
    return False if no else None


def _certainly_equal(a: Any, b: Any) -> bool | None:
    if a is b:  # the same number, however little is known about it
        return True
    return _certainly(a <= b and a >= b, a < b or a > b)


def _certainly_not_equal(a: Any, b: Any) -> bool | None:
    equal = _certainly_equal(a, b)
    return None if equal is None else not equal


_CERTAIN: dict[str, Function] = {
    "less": lambda a, b: _certainly(a < b, a >= b),
    "less_equal": lambda a, b: _certainly(a <= b, a > b),
    "greater": lambda a, b: _certainly(a > b, a <= b),
    "greater_equal": lambda a, b: _certainly(a >= b, a < b),
    "equal": _certainly_equal,
    "not_equal": _certainly_not_equal,
}


# Functions by way of others -----------------------------------------------------------------------


def derived(numbers: NumberType, name: str) -> Function | None:
    """A function that the table of a type lacks, by way of those that it has; None for none."""
    known = numbers.made.get(("derived", name), _UNKNOWN)
    if known is not _UNKNOWN:
        found: Function | None = known
        return found
    maker = _DERIVED.get(name)
    made = None
    if maker is not None:
        needed, build = maker
        parts = [numbers.function(one) for one in needed.split()]
        if None not in parts:
            made = build(numbers, *parts)
    numbers.made["derived", name] = made
    return made


_UNKNOWN = object()
# Entries of a table that are no functions of torch's.
_OWN = frozenset({"parse", "refuse", "nan", "inf", "pi"})


def names(numbers: NumberType) -> list[str]:
    """What a type has, by torch's names."""
    given = numbers.functions.keys() - _OWN
    return sorted(given | {name for name in _DERIVED.keys() - _OWN if derived(numbers, name)})


def _chosen(numbers: NumberType, order: str, *, passes_nan: bool) -> Function:
    """The larger or smaller of two; NaN is passed on, or passed over."""
    is_nan, before = numbers.function("isnan"), compared(numbers, order)
    assert is_nan is not None

    def choose(a: Any, b: Any) -> Any:
        if is_nan(a):
            return a if passes_nan else b
        if is_nan(b):
            return b if passes_nan else a
        return a if a is b or before(a, b) else b

    return choose


def _sign(numbers: NumberType) -> Function:
    if numbers.is_complex:
        return lambda z: z / abs(z) if truth(numbers, z) else z
    less, zero = compared(numbers, "less"), numbers.convert(0)
    return lambda x: numbers.convert(less(zero, x) - less(x, zero))


def _negative(numbers: NumberType) -> Function:
    if hasattr(numbers.cls, "__neg__"):
        return operator.neg
    return lambda x: numbers.convert(0) - x


def _divide(numbers: NumberType) -> Function:
    """A quotient; by zero infinite, where there is such a number: what hides it may come later."""
    if "inf" not in numbers.functions or "nan" not in numbers.functions or numbers.encloses:
        return lambda a, b: a / b
    inf, nan = numbers.functions["inf"], numbers.functions["nan"]

    def divide(a: Any, b: Any) -> Any:
        try:
            return a / b
        except ArithmeticError:
            if b != 0 or numbers.is_complex:
                raise
            return nan() if a == 0 or a != a else inf() if a > 0 else -inf()

    return divide


def _power(numbers: NumberType) -> Function:
    root = numbers.functions.get("pow") or (lambda a, b: a**b)

    def power(a: Any, b: Any) -> Any:
        whole = b if isinstance(b, int) else _whole(b)
        return root(a, b) if whole is None else a**whole

    return power


def _whole(value: Any) -> int | None:
    """The int that a number is, or None."""
    try:
        whole = int(value)
        same = whole == value
    except (TypeError, ValueError, OverflowError):
        return None
    return whole if same is True or (same is not None and bool(same)) else None


def _stepped(numbers: NumberType, step: Function) -> Function:
    return lambda x: numbers.convert(int(step(x)))


def _finite(numbers: NumberType, is_nan: Function, is_inf: Function) -> Function:
    return lambda x: not is_nan(x) and not is_inf(x)


def _log_sum(t: NumberType, exp: Function, log1p: Function, maximum: Function, minimum: Function
             ) -> Function:  # fmt: skip
    def logaddexp(a: Any, b: Any) -> Any:
        most, least = maximum(a, b), minimum(a, b)
        return most + log1p(exp(least - most))

    return logaddexp


# Name -> (what it needs, what makes it of those). Python's own functions come first.
_DERIVED: dict[str, tuple[str, Function]] = {
    "abs": ("", lambda t: abs),
    "divide": ("", _divide),
    "positive": ("", lambda t: (lambda x: x)),
    "negative": ("", lambda t: _negative(t)),
    "conj": ("", lambda t: (lambda x: x)),
    "square": ("", lambda t: (lambda x: x * x)),
    "reciprocal": ("", lambda t: (lambda x: t.convert(1) / x)),
    "pow": ("", _power),
    "sign": ("", _sign),
    "isnan": ("", lambda t: (lambda x: False)),
    "isinf": ("", lambda t: (lambda x: False)),
    "isfinite": ("isnan isinf", _finite),
    "signbit": ("", lambda t: (lambda x: compared(t, "less")(x, t.convert(0)))),
    "maximum": ("isnan", lambda t, _: _chosen(t, "greater_equal", passes_nan=True)),
    "minimum": ("isnan", lambda t, _: _chosen(t, "less_equal", passes_nan=True)),
    "fmax": ("isnan", lambda t, _: _chosen(t, "greater_equal", passes_nan=False)),
    "fmin": ("isnan", lambda t, _: _chosen(t, "less_equal", passes_nan=False)),
    "floor": ("", lambda t: _stepped(t, math.floor)),
    "ceil": ("", lambda t: _stepped(t, math.ceil)),
    "trunc": ("", lambda t: _stepped(t, int)),
    "round": ("", lambda t: _stepped(t, round)),
    "floor_divide": ("floor", lambda t, floor: (lambda a, b: floor(a / b))),
    "remainder": ("floor", lambda t, floor: (lambda a, b: a - b * floor(a / b))),
    "fmod": ("trunc", lambda t, trunc: (lambda a, b: a - b * trunc(a / b))),
    "rsqrt": ("sqrt", lambda t, sqrt: (lambda x: t.convert(1) / sqrt(x))),
    "hypot": ("sqrt", lambda t, sqrt: (lambda a, b: sqrt(a * a + b * b))),
    "expm1": ("exp", lambda t, exp: (lambda x: exp(x) - t.convert(1))),
    "exp2": ("exp log", lambda t, exp, log: (lambda x: exp(x * log(t.convert(2))))),
    "log1p": ("log", lambda t, log: (lambda x: log(t.convert(1) + x))),
    "log2": ("log", lambda t, log: (lambda x: log(x) / log(t.convert(2)))),
    "log10": ("log", lambda t, log: (lambda x: log(x) / log(t.convert(10)))),
    "logaddexp": ("exp log1p maximum minimum", _log_sum),
    "sigmoid": ("exp", lambda t, exp: (lambda x: t.convert(1) / (t.convert(1) + exp(-x)))),
    "sinh": ("expm1", lambda t, expm1: (lambda x: (expm1(x) - expm1(-x)) / t.convert(2))),
    "cosh": ("exp", lambda t, exp: (lambda x: (exp(x) + exp(-x)) / t.convert(2))),
    # x stands in it once, so that of an interval no more is lost than must be.
    "tanh": ("exp", lambda t, exp: (
        lambda x: t.convert(1) - t.convert(2) / (exp(x + x) + t.convert(1)))),
    "erfc": ("erf", lambda t, erf: (lambda x: t.convert(1) - erf(x))),
    "tan": ("sin cos", lambda t, sin, cos: (lambda x: sin(x) / cos(x))),
    "pi": ("atan", lambda t, atan: (lambda: atan(t.convert(1)) * t.convert(4))),
}  # fmt: skip
