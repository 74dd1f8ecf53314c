"""What a Python float means beside numbers of other types.

`0.1` in a program, in an option or in a formula of ours is a decimal that somebody wrote down. So
it means the decimal that Python prints for it: one tenth, not the binary number next to it. A float
of many digits is the result of a computation that was rounded. If it is the nearest to a short
fraction (1 / 3), to the root of one (1 / math.sqrt(64)) or to a constant (math.pi), that is meant,
and computed anew with the digits of the type at hand. All others are refused, since they would take
digits away without a word.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pullback.core.numbers.types import NumberType

__all__ = ["RoundedError", "written"]

# Of all results of computations that were rounded, one in many thousands has so few digits or bits.
_DIGITS = 12
_BITS = 20


_Constant = Callable[["_Words"], Any]


class RoundedError(TypeError):
    """A float of which nobody can say which number it was to be."""

    def __init__(self, numbers: NumberType, value: float) -> None:
        self.value = value
        super().__init__(
            f"The float {value!r} was rounded to 53 bits, so it is not known which number of type "
            f"{numbers.name} is meant. Write that number itself; for the float as it is, to its "
            f"last bit, convert a tensor: torch.tensor(x, dtype=torch.float64).to({numbers.name})."
        )


def written(numbers: NumberType, value: float) -> Any:
    """The number that a float stands for; TypeError if that cannot be known."""
    if not math.isfinite(value):
        return _not_finite(numbers, value)
    exact = Fraction(value)
    if exact.numerator.bit_length() <= _BITS:
        return numbers.ratio(exact)
    shown = repr(value)
    if len(Decimal(shown).as_tuple().digits) <= _DIGITS:
        return numbers.ratio(Fraction(shown))
    simple = _simplest(exact, lambda one: float(one) == value)
    if simple is not None:
        return numbers.ratio(simple)
    known = _CONSTANTS.get(abs(value)) or _root(exact)
    if known is None:
        raise RoundedError(numbers, value)
    found = known(_Words(numbers))
    return -found if value < 0 else found


def _simplest(exact: Fraction, fits: Callable[[Fraction], bool], bits: int = 34) -> Fraction | None:
    """The first convergent that fits, if it is short: 1/3 for 0.3333333333333333."""
    before, last = (0, 1), (1, 0)
    rest = exact
    while True:
        whole = math.floor(rest)
        before, last = last, (whole * last[0] + before[0], whole * last[1] + before[1])
        if last[0].bit_length() + last[1].bit_length() > bits:
            return None
        if fits(found := Fraction(*last)):
            return found
        if rest == whole:
            return None
        rest = 1 / (rest - whole)


def _root(exact: Fraction) -> _Constant | None:
    """The square root of a short fraction, as 1 / math.sqrt(7): to the last bit but one."""
    near = Fraction(1, 2**52)
    low, high = (abs(exact) * (1 - near)) ** 2, (abs(exact) * (1 + near)) ** 2
    square = _simplest(exact**2, lambda one: low <= one <= high, bits=24)
    if square is None or (_is_square(square.numerator) and _is_square(square.denominator)):
        return None  # 0.1 + 0.2 is next to the root of 9/100
    return lambda t: t.sqrt(t.numbers.ratio(square))


def _is_square(value: int) -> bool:
    return math.isqrt(value) ** 2 == value


def _not_finite(numbers: NumberType, value: float) -> Any:
    name = "nan" if value != value else "inf"
    made = numbers.functions.get(name)
    if made is None:
        raise TypeError(f"Numbers of type {numbers.name} have no {name}.")
    return -made() if value == -math.inf else made()


class _Words:
    """The functions of a type, by name, for constants; a missing one is an error."""

    def __init__(self, numbers: NumberType) -> None:
        self.numbers = numbers

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found = self.numbers.function(name)
        if found is None:
            from pullback.core.numbers.types import no_meaning

            raise no_meaning(name, self.numbers)
        return found

    def __call__(self, value: int) -> Any:
        return self.numbers.convert(value)


def _decimal(text: str) -> _Constant:
    return lambda t: t.numbers.ratio(Fraction(text))


_ROOT_PI = math.sqrt(math.pi)
_CONSTANTS: dict[float, _Constant] = {
    math.pi: lambda t: t.pi(),
    2 * math.pi: lambda t: t(2) * t.pi(),
    math.pi / 2: lambda t: t.pi() / t(2),
    1 / math.pi: lambda t: t(1) / t.pi(),
    math.pi / 180: lambda t: t.pi() / t(180),
    180 / math.pi: lambda t: t(180) / t.pi(),
    math.e: lambda t: t.exp(t(1)),
    math.log(2): lambda t: t.log(t(2)),
    -math.log(0.5): lambda t: t.log(t(2)),
    1 / math.log(2): lambda t: t(1) / t.log(t(2)),
    math.log(10): lambda t: t.log(t(10)),
    1 / math.log(10): lambda t: t(1) / t.log(t(10)),
    math.sqrt(2): lambda t: t.sqrt(t(2)),
    math.sqrt(0.5): lambda t: t(1) / t.sqrt(t(2)),
    _ROOT_PI: lambda t: t.sqrt(t.pi()),
    _ROOT_PI / 2: lambda t: t.sqrt(t.pi()) / t(2),
    1 / _ROOT_PI: lambda t: t(1) / t.sqrt(t.pi()),
    2 / _ROOT_PI: lambda t: t(2) / t.sqrt(t.pi()),
    math.sqrt(2 / math.pi): lambda t: t.sqrt(t(2) / t.pi()),
    0.5 * math.sqrt(2 / math.pi): lambda t: t.sqrt(t(2) / t.pi()) / t(2),
    math.sqrt(2 * math.pi): lambda t: t.sqrt(t(2) * t.pi()),
    1 / math.sqrt(2 * math.pi): lambda t: t(1) / t.sqrt(t(2) * t.pi()),
    math.log(math.pi): lambda t: t.log(t.pi()),
    math.log(2 * math.pi): lambda t: t.log(t(2) * t.pi()),
    0.5 * math.log(2 * math.pi): lambda t: t.log(t(2) * t.pi()) / t(2),
    0.5 * math.log(math.pi): lambda t: t.log(t.pi()) / t(2),
    # Those of selu are decimals by definition.
    1.6732632423543772848170429916717: _decimal("1.6732632423543772848170429916717"),
    1.0507009873554804934193349852946: _decimal("1.0507009873554804934193349852946"),
    1.7580993408473766: lambda t: (
        t.numbers.ratio(Fraction("1.6732632423543772848170429916717"))
        * t.numbers.ratio(Fraction("1.0507009873554804934193349852946"))
    ),
}
