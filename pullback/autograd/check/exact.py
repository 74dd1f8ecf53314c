"""gradcheck for tensors of fractions and other numbers: equal, where numbers are exact.

Fractions need no finite differences. The function runs once more on numbers a + b e with e * e = 0,
whose arithmetic is Python's and written here: the part beside e is the derivative, to the last
digit, and knows nothing of our rules. What it gives must be equal to what backward gives. Numbers
that are rounded, such as mpmath's, have no such luck: there it is central differences as ever, with
as many digits as the numbers have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy

from pullback.autograd.check.derivatives import is_checked, tensors_of, tupled
from pullback.core.numbers.array import NumberArray, held
from pullback.core.numbers.types import NumberType, enter, no_meaning
from pullback.core.tensor import Tensor, wrap

__all__ = ["mismatch"]


class Dual:
    """a + b e, where e * e = 0."""

    __slots__ = ("slope", "value")

    def __init__(self, value: Any, slope: Any) -> None:
        self.value, self.slope = value, slope

    def __repr__(self) -> str:
        return f"{self.value} + {self.slope} e"

    def __neg__(self) -> Dual:
        return type(self)(-self.value, -self.slope)

    def __pos__(self) -> Dual:
        return self

    def __add__(self, other: Dual) -> Dual:
        return type(self)(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: Dual) -> Dual:
        return type(self)(self.value - other.value, self.slope - other.slope)

    def __mul__(self, other: Dual) -> Dual:
        slope = self.slope * other.value + self.value * other.slope
        return type(self)(self.value * other.value, slope)

    def __truediv__(self, other: Dual) -> Dual:
        value = self.value / other.value
        return type(self)(value, (self.slope - value * other.slope) / other.value)

    def __pow__(self, power: int) -> Dual:
        if power == 0:
            return type(self)(self.value**0, self.slope * 0)
        return type(self)(self.value**power, self.value ** (power - 1) * power * self.slope)

    def __abs__(self) -> Dual:
        return -self if self.value < 0 else self

    def __int__(self) -> int:
        return int(self.value)

    def __floor__(self) -> int:
        return int(self.value // 1)

    def __ceil__(self) -> int:
        return -int(-self.value // 1)

    def __round__(self) -> int:
        whole: int = round(self.value)
        return whole

    def __lt__(self, other: Dual) -> bool:
        return bool(self.value < _value(other))

    def __le__(self, other: Dual) -> bool:
        return bool(self.value <= _value(other))

    def __gt__(self, other: Dual) -> bool:
        return bool(self.value > _value(other))

    def __ge__(self, other: Dual) -> bool:
        return bool(self.value >= _value(other))

    def __eq__(self, other: object) -> bool:
        return bool(self.value == _value(other))

    __hash__ = None  # type: ignore[assignment]  # how Python spells "unhashable"


def _value(one: Any) -> Any:
    return one.value if isinstance(one, Dual) else one


@cache
def _duals(numbers: NumberType) -> NumberType:
    """The type of such numbers over others."""
    cls = type(f"Dual[{numbers.name}]", (Dual,), {"__slots__": ()})

    def convert(value: Any) -> Any:
        return cls(numbers.element(value), numbers.convert(0))

    functions: dict[str, Callable[..., Any]] = {}
    if "sqrt" in numbers.functions:
        root = numbers.functions["sqrt"]

        def sqrt(x: Any) -> Any:
            value = root(x.value)
            return cls(value, x.slope / (value + value))

        functions["sqrt"] = sqrt
    made = NumberType(cls, convert, functions=functions)
    made.takes = (numbers,)
    return enter(made)


def mismatch(func: Callable[..., Any], inputs: Any, eps: float, atol: float, rtol: float) -> str:
    """Where backward and the numbers' own arithmetic do not agree; empty if they do everywhere."""
    given = tupled(inputs)
    checked = [one for one in given if is_checked(one)]
    numbers: NumberType = checked[0]._array.dtype.numbers
    if any(getattr(one._array.dtype, "numbers", None) is not numbers for one in checked):
        raise TypeError("gradcheck: the inputs must be of numbers of one type.")
    if numbers.encloses or numbers.is_complex:
        raise no_meaning("gradcheck", numbers, "it compares real numbers with one another")
    outputs = [one for one in tensors_of(tupled(func(*given))) if one.requires_grad]
    for place, one in enumerate(given):
        if not is_checked(one):
            continue
        found = _by_backward(outputs, one)
        for number in range(one._array.size):
            if numbers.rounds:
                moved = _by_difference(func, given, place, number, numbers, eps)
            else:
                moved = _by_duals(func, given, place, number, numbers)
            for of, (column, expected) in enumerate(zip(found, moved, strict=True)):
                for at, (got, wanted) in enumerate(zip(column[number], expected, strict=True)):
                    if not _agree(numbers, got, wanted, atol, rtol):
                        return (
                            f"the derivative of element {at} of output {of} by element {number} "
                            f"of input {place} is {got} by backward, and {wanted} by "
                            f"{'central differences' if numbers.rounds else 'arithmetic'}"
                        )
    return ""


def _agree(numbers: NumberType, got: Any, wanted: Any, atol: float, rtol: float) -> bool:
    if not numbers.rounds:
        return bool(got == wanted)
    near = numbers.exactly(atol) + numbers.exactly(rtol) * abs(wanted)
    return bool(abs(got - wanted) <= near)


def _by_backward(outputs: Sequence[Tensor], input: Tensor) -> list[list[list[Any]]]:
    """For each output and element of the input, the derivatives of the output's elements."""
    from pullback.engine.backward import grad  # loads with the first pass

    zero = input._array.dtype.numbers.convert(0)
    found = []
    for output in outputs:
        rows: list[list[Any]] = []
        for at in range(output._array.size):
            unit = numpy.zeros_like(output._array)
            unit[numpy.unravel_index(at, unit.shape)] = 1
            (g,) = grad(output, [input], wrap(unit), retain_graph=True, allow_unused=True)
            rows.append([zero] * input._array.size if g is None else g._array.ravel().tolist())
        found.append([list(column) for column in zip(*rows, strict=True)] if rows else
                     [[] for _ in range(input._array.size)])  # fmt: skip
    return found


def _run(func: Callable[..., Any], args: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """The arrays of those results that have gradients."""
    again = [
        one.requires_grad_() if is_checked(old) and not one.requires_grad else one
        for one, old in zip(args, like, strict=True)
    ]
    made = [one for one in tensors_of(tupled(func(*again))) if one.requires_grad]
    return [one._array for one in made]


def _by_duals(
    func: Callable[..., Any], given: Any, place: int, number: int, numbers: NumberType
) -> list[list[Any]]:
    duals = _duals(numbers)
    args = [_with_slope(one, duals, number if i == place else -1) for i, one in enumerate(given)]
    return [[one.slope for one in made.ravel().tolist()] for made in _run(func, args, given)]


def _with_slope(value: Any, duals: NumberType, number: int) -> Any:
    if not isinstance(value, Tensor) or type(value._array) is not NumberArray:
        return value
    one = duals.takes[0].convert(1)
    made = numpy.empty(value._array.shape, object)
    for place, (where, element) in enumerate(
        zip(numpy.ndindex(made.shape), value._array.ravel().tolist(), strict=True)
    ):
        made[where] = duals.cls(element, one if place == number else one - one)
    return wrap(held(made, duals))


def _by_difference(
    func: Callable[..., Any], given: Any, place: int, number: int, numbers: NumberType, eps: float
) -> list[list[Any]]:
    step = numbers.exactly(eps)
    sides = []
    for side in (step, -step):
        args = list(given)
        array = given[place]._array.copy()
        where = numpy.unravel_index(number, array.shape)
        array[where] = array[where].item() + side
        args[place] = wrap(array)
        sides.append(_run(func, args, given))
    return [((a - b) / (step + step)).ravel().tolist() for a, b in zip(*sides, strict=True)]
