"""Types of numbers that are known without registration, each with its table of functions.

A library that the user did not bring is not imported: a function here runs when a number of its
library is met.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from pullback.core import dtype as dtypes
from pullback.core.home import home_of
from pullback.core.numbers.types import NumberType, enter, no_meaning

__all__ = ["find"]


def find(cls: type) -> NumberType | None:
    """The type of numbers that a class of a known library belongs to, entered; None of others."""
    return _MAKERS[home_of(cls).partition(".")[0]](cls)


# Fractions ----------------------------------------------------------------------------------------


def _fractions(cls: type) -> NumberType | None:
    if cls is not Fraction:
        return None
    made = NumberType(Fraction, Fraction, functions={"pow": _exact_power, "parse": Fraction})
    made.functions["sqrt"] = lambda x: _root_of(made, x, 2)
    return enter(made)


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction:
    """A power that is a fraction; others are refused."""
    numbers = _fractions_type()
    power: Fraction = _root_of(numbers, base, exponent.denominator) ** exponent.numerator
    return power


def _fractions_type() -> NumberType:
    from pullback.core.numbers.types import of_class

    found = of_class(Fraction)
    assert found is not None
    return found


def _root_of(numbers: NumberType, value: Any, degree: int) -> Any:
    """The root of a fraction where that is one as well."""
    above, below = _whole_root(value.numerator, degree), _whole_root(value.denominator, degree)
    if above is None or below is None:
        named = "square root" if degree == 2 else f"root of degree {degree}"
        name = "sqrt" if degree == 2 else "pow"
        raise no_meaning(name, numbers, f"the {named} of {value} is irrational")
    return Fraction(above, below)


def _whole_root(value: int, degree: int) -> int | None:
    """The root of an int, if it is one."""
    if value < 0:
        root = None if degree % 2 == 0 else _whole_root(-value, degree)
        return None if root is None else -root
    if degree > value.bit_length():  # below 2, and no power is worked out
        return value if value < 2 else None
    if degree == 2:
        guess = math.isqrt(value)
    else:  # by halves: it has this many bits at most
        guess, step = 0, 1 << (value.bit_length() // degree + 1)
        while step:
            if (guess + step) ** degree <= value:
                guess += step
            step >>= 1
    return guess if guess**degree == value else None


# Decimals -----------------------------------------------------------------------------------------


def _decimals(cls: type) -> NumberType | None:
    if cls is not Decimal:
        return None
    table: dict[str, Callable[..., Any]] = {
        "parse": Decimal,
        "exp": lambda x: x.exp(),
        "expm1": _decimal_expm1,
        "log": lambda x: x.ln(),
        "log1p": _decimal_log1p,
        "log10": lambda x: x.log10(),
        "sqrt": lambda x: x.sqrt(),
        "tanh": _decimal_tanh,
        "pi": _decimal_pi,
        "isnan": lambda x: x.is_nan(),
        "isinf": lambda x: x.is_infinite(),
        "floor_divide": lambda a, b: (a - _decimal_rest(a, b)) / b,
        "remainder": _decimal_rest,
        "fmod": lambda a, b: a % b,
        "nan": lambda: Decimal("NaN"),
        "inf": lambda: Decimal("Infinity"),
    }
    return enter(NumberType(Decimal, Decimal, rounds=True, functions=table))


def _with_more_digits(x: Decimal, function: Callable[[Decimal], Decimal]) -> Decimal:
    """A function that takes the difference of numbers near to each other, with digits to spare."""
    with localcontext() as context:
        context.prec += 5 + (max(0, -x.adjusted()) if x else 0)
        made = function(x)
    return +made  # rounded to the digits of the program


def _decimal_expm1(x: Decimal) -> Decimal:
    return _with_more_digits(x, lambda x: x.exp() - 1)


def _decimal_log1p(x: Decimal) -> Decimal:
    return _with_more_digits(x, lambda x: (1 + x).ln())


def _decimal_tanh(x: Decimal) -> Decimal:
    return _with_more_digits(x, lambda x: 1 - 2 / ((x + x).exp() + 1))


def _decimal_pi() -> Decimal:
    """Machin: 16 atan(1/5) - 4 atan(1/239), in whole numbers."""
    with localcontext() as context:
        context.prec += 10
        one: int = 10**context.prec

        def arctan(inverse: int) -> int:
            term = total = one // inverse
            number, sign = 3, -1
            while term:
                term //= inverse * inverse
                total += sign * (term // number)
                number, sign = number + 2, -sign
            return total

        made: Decimal = Decimal(16 * arctan(5) - 4 * arctan(239)) / one
    return +made


def _decimal_rest(a: Decimal, b: Decimal) -> Decimal:
    """With the sign of the divisor, where Python's has that of the dividend."""
    rest = a % b
    return rest + b if rest and (rest < 0) != (b < 0) else rest


# mpmath -------------------------------------------------------------------------------------------

_SAME = """
    acos acosh asin asinh atan atan2 atanh ceil cos cosh digamma erf erfc erfinv exp expm1 floor
    gamma hypot log log10 log1p sin sinh sqrt tan tanh
"""


def _mpmath(cls: type) -> NumberType | None:
    context = getattr(cls, "context", None)
    if context is None:
        context = getattr(cls, "ctx", None)
        return _intervals(context) if context is not None and issubclass(cls, context.mpf) else None
    real = _long_floats(context, context.mpf, is_complex=False)
    pair = _long_floats(context, context.mpc, is_complex=True)
    pair.real, real.complex = real, pair
    dtypes.enter_pair(real.dtype, pair.dtype)
    return pair if issubclass(cls, context.mpc) else real


def _long_floats(ctx: Any, cls: type, *, is_complex: bool) -> NumberType:
    table: dict[str, Callable[..., Any]] = {name: getattr(ctx, name) for name in _SAME.split()}
    table |= {
        "pi": lambda: cls(ctx.pi),
        "exp2": lambda x: ctx.power(2, x),
        "log2": lambda x: ctx.log(x) / ctx.log(2),
        "lgamma": (lambda x: ctx.loggamma(x)) if is_complex else lambda x: ctx.loggamma(x).real,
        "rsqrt": lambda x: 1 / ctx.sqrt(x),
        "sinc": ctx.sincpi,
        "i0": lambda x: ctx.besseli(0, x),
        "i1": lambda x: ctx.besseli(1, x),
        "polygamma": ctx.psi,
        "isnan": ctx.isnan,
        "isinf": ctx.isinf,
        "round": ctx.nint,
        "remainder": lambda a, b: a % b,
        "conj": (lambda x: x.conjugate()) if is_complex else lambda x: x,
        "nan": lambda: cls(ctx.nan),
        "inf": lambda: cls(ctx.inf),
        "parse": cls,
    }
    elements: tuple[type, ...] = () if is_complex else (type(ctx.pi),)
    made = NumberType(
        cls, cls, elements=elements, rounds=True, is_complex=is_complex, functions=table
    )
    return enter(made)


def _intervals(ctx: Any) -> NumberType:
    cls = ctx.mpf
    # These alone round outwards; others of the context are not made for intervals.
    names = ("exp", "log", "sqrt", "sin", "cos", "tan")
    table: dict[str, Callable[..., Any]] = {name: getattr(ctx, name) for name in names}
    table |= {
        "parse": cls,
        "pi": lambda: cls(ctx.pi),
        "square": lambda x: x**2,
        "maximum": lambda a, b: cls([_later(a.a, b.a), _later(a.b, b.b)]),
        "minimum": lambda a, b: cls([_sooner(a.a, b.a), _sooner(a.b, b.b)]),
        "inf": lambda: cls(ctx.inf),
        "isinf": lambda x: not -ctx.inf < x.a or not x.b < ctx.inf,
    }
    made = NumberType(cls, cls, encloses=True, functions=table)
    made.name = "iv.mpf"
    return enter(made)


def _later(a: Any, b: Any) -> Any:
    return a if a >= b else b


def _sooner(a: Any, b: Any) -> Any:
    return a if a <= b else b


# SymPy --------------------------------------------------------------------------------------------


def _sympy(cls: type) -> NumberType | None:
    import sympy

    if not issubclass(cls, sympy.Expr):
        return None
    names = "acos acosh asin asinh atan atan2 atanh cos cosh digamma erf erfc erfinv exp floor "
    names += "gamma log sign sin sinh sqrt tan tanh"
    table: dict[str, Callable[..., Any]] = {name: getattr(sympy, name) for name in names.split()}
    table |= {
        "abs": sympy.Abs,
        "ceil": sympy.ceiling,
        "lgamma": sympy.loggamma,
        "polygamma": sympy.polygamma,
        "maximum": sympy.Max,
        "minimum": sympy.Min,
        "pi": lambda: sympy.pi,
        "isnan": lambda x: x is sympy.nan,
        "isinf": lambda x: x.is_infinite is True,
        "nan": lambda: sympy.nan,
        "inf": lambda: sympy.oo,
        "refuse": lambda x: "it is not real" if x.is_extended_real is False else "",
    }
    return enter(NumberType(sympy.Expr, sympy.sympify, functions=table))


# FLINT --------------------------------------------------------------------------------------------

_OF_BALLS = """
    acos acosh asin asinh atan atanh cos cosh digamma erf erfc exp expm1 gamma lgamma log log1p
    rsqrt sin sinh sqrt tan tanh
"""


def _flint(cls: type) -> NumberType | None:
    import flint

    if cls in (flint.fmpq, flint.fmpz):
        made = NumberType(flint.fmpq, flint.fmpq, elements=(flint.fmpz,), functions={})
        made.functions["sqrt"] = lambda x: _fmpq_root(made, x)
        made.functions["sign"] = lambda x: flint.fmpq((x > 0) - (x < 0))
        return enter(made)
    if cls not in (flint.arb, flint.acb):
        return None
    real = _balls(flint.arb)
    pair = _balls(flint.acb, is_complex=True)
    real.functions |= {
        "maximum": flint.arb.max,
        "minimum": flint.arb.min,
        "atan2": flint.arb.atan2,
        "floor": flint.arb.floor,
        "ceil": flint.arb.ceil,
        "inf": flint.arb.pos_inf,
        "isnan": flint.arb.is_nan,
    }
    pair.functions |= {"sgn": flint.acb.sgn, "not_equal": _not_equal_balls}
    pair.functions["equal"] = lambda a, b: _opposite(_not_equal_balls(a, b))
    pair.real, real.complex = real, pair
    dtypes.enter_pair(real.dtype, pair.dtype)
    return pair if cls is flint.acb else real


def _not_equal_balls(a: Any, b: Any) -> bool | None:
    """Whether two complex balls are different numbers; None where they do not tell."""
    if a is b or not a.overlaps(b):
        return a is not b
    return False if a.is_exact() and b.is_exact() else None


def _opposite(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _balls(cls: Any, *, is_complex: bool = False) -> NumberType:
    table = {name: getattr(cls, name) for name in _OF_BALLS.split() if hasattr(cls, name)}
    table |= {"pi": cls.pi, "nan": cls.nan} if not is_complex else {"pi": cls.pi}
    table["conj"] = (lambda x: x.conjugate()) if is_complex else lambda x: x
    table["polygamma"] = _polygamma_of(cls)
    return enter(NumberType(cls, cls, encloses=True, is_complex=is_complex, functions=table))


def _polygamma_of(cls: Any) -> Callable[[int, Any], Any]:
    def polygamma(n: int, x: Any) -> Any:
        if n == 0:
            return x.digamma()
        sign = 1 if n % 2 else -1
        return sign * math.factorial(n) * cls(n + 1).zeta(x)  # Hurwitz's

    return polygamma


def _fmpq_root(numbers: NumberType, value: Any) -> Any:
    root = _root_of(numbers, Fraction(int(value.p), int(value.q)), 2)
    return numbers.ratio(root)


_MAKERS: dict[str, Callable[[type], NumberType | None]] = {
    "fractions": _fractions,
    "decimal": _decimals,
    "mpmath": _mpmath,
    "sympy": _sympy,
    "flint": _flint,
}
