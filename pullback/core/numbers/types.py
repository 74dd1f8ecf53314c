"""Types of numbers: what each can do, and the dtype of tensors that hold them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy

from pullback.core import dtype as dtypes
from pullback.core.home import home_of
from pullback.core.process.first_use import first_use

__all__ = [
    "MixedNumbersError",
    "NoMeaningError",
    "NumberDtype",
    "NumberType",
    "enter",
    "meant",
    "no_meaning",
    "of_class",
    "of_element",
]

Function = Callable[..., Any]


class NumberDtype:
    """Stands where arrays of the other tensors have a NumPy dtype.

    For NumPy it is `object`. To whom asks for its kind it says that it is floating point (or
    complex), since that decides what is differentiable, what is promoted and what is refused.
    """

    char = dtypes.OF_NUMBERS
    num = numpy.dtype(object).num
    itemsize = numpy.dtype(object).itemsize
    alignment = itemsize
    metadata = None
    isnative = True
    names = None

    def __init__(self, numbers: NumberType) -> None:
        self.numbers = numbers
        self.kind = "c" if numbers.is_complex else "f"
        self.name = f"numbers[{numbers.name}]"
        # The note tells `held` what an array that NumPy has made is to hold.
        self.dtype = numpy.dtype(object, metadata={"numbers": numbers})

    @property
    def written(self) -> str:
        """As `dtype=` takes it."""
        return self.numbers.name

    def type(self, value: Any) -> Any:
        """A number of this type, as NumPy's dtypes make scalars."""
        return self.numbers.element(value)

    def __repr__(self) -> str:
        return self.name


class NumberType:
    """One type of numbers: how elements are made, and its table of functions."""

    def __init__(
        self,
        cls: type,
        convert: Function,
        *,
        elements: tuple[type, ...] = (),
        encloses: bool = False,
        rounds: bool = False,
        is_complex: bool = False,
        functions: dict[str, Function],
    ) -> None:
        self.cls = cls
        self.name = cls.__name__
        self.convert = convert
        self.elements = (cls, *elements)
        self.encloses = encloses
        self.rounds = rounds
        self.is_complex = is_complex
        self.functions = functions
        self.takes: tuple[NumberType, ...] = ()  # others that become this one without being asked
        self.real = self  # the type of absolute values and real parts
        self.complex: NumberType | None = self if is_complex else None
        self.made: dict[Any, Any] = {}  # functions of arrays, by NumPy's name
        self.numpy = NumberDtype(self)
        self.dtype = dtypes.enter_numbers(self.numpy, is_complex=is_complex)

    def __repr__(self) -> str:
        return f"<numbers of type {self.name}>"

    def is_own(self, value: Any) -> bool:
        """Whether a value is a number of this type as it stands."""
        return type(value) is self.cls or isinstance(value, self.cls)

    def element(self, value: Any) -> Any:
        """A number of this type, of an int, a fraction, a float or another type that it holds."""
        if type(value) is self.cls:
            return value
        if isinstance(value, self.elements):
            return value if isinstance(value, self.cls) else self.convert(value)
        if isinstance(value, numpy.ndarray) and value.ndim == 0:
            return self.element(value.item())
        if isinstance(value, numpy.generic):
            value = value.item()
        if isinstance(value, int):
            return self.convert(int(value))
        if isinstance(value, Fraction):
            return self.ratio(value)
        if isinstance(value, float):
            from pullback.core.numbers.floats import written

            return written(self, value)
        if isinstance(value, complex) and self.is_complex:
            return self.convert(value.real, value.imag)
        if self.complex is self and isinstance(value, self.real.elements):
            return self.convert(value)
        if any(other.is_own(value) for other in self.takes):
            return self.convert(value)
        raise self.refused(value)

    def exactly(self, value: float) -> Any:
        """The number that a float is, to its last bit; for conversions that are asked for."""
        if value - value != 0:
            return self.element(value)
        return self.ratio(Fraction(value))

    def parsed(self, text: str) -> Any:
        """The number that a text says: "1/3", "0.1"."""
        own = self.functions.get("parse")
        if own is not None:
            return own(text)
        try:
            return self.ratio(Fraction(text))
        except ValueError:
            raise ValueError(f"{text!r} is no number of type {self.name}.") from None

    def ratio(self, value: Fraction) -> Any:
        """A fraction as a number of this type."""
        if self.cls is Fraction:
            return value
        if value.denominator == 1:
            return self.convert(value.numerator)
        return self.convert(value.numerator) / self.convert(value.denominator)

    def refused(self, value: Any) -> TypeError:
        """What is no number of this type and becomes none."""
        text = repr(value)
        shown = text if len(text) <= 40 else f"{text[:37]}..."
        return TypeError(
            f"{shown} of type {type(value).__name__} is no number of type {self.name}, and there "
            "is no rule to make one of it. Convert it first."
        )

    def function(self, name: str) -> Function | None:
        """The function of numbers under torch's name, from the table or by way of others."""
        from pullback.core.numbers.functions import derived

        return self.functions.get(name) or derived(self, name)


_BY_CLASS: dict[type, NumberType] = {}
# Modules whose numbers need no registration; `known.py` has a function for each.
KNOWN = frozenset({"fractions", "decimal", "mpmath", "sympy", "flint"})


def enter(numbers: NumberType) -> NumberType:
    """Make a type known under its class, and under those of its elements."""
    for cls in numbers.elements:
        _BY_CLASS[cls] = numbers
    return numbers


def of_class(cls: Any) -> NumberType | None:
    """The type of numbers that a class stands for; None of other classes."""
    found = _BY_CLASS.get(cls)
    if found is not None:
        return found
    if not isinstance(cls, type):
        return None
    for base in cls.__mro__[1:]:
        if base in _BY_CLASS:
            return _BY_CLASS[base]
    for base in cls.__mro__:
        if home_of(base).partition(".")[0] in KNOWN:
            return _found(base)
    return None


def _found(cls: type) -> NumberType | None:
    from pullback.core.numbers import known

    with first_use:
        return _BY_CLASS.get(cls) or known.find(cls)


def of_element(value: Any) -> NumberType | None:
    """The type of a value, if that is a number that NumPy has no dtype for."""
    return None if isinstance(value, int | float | complex) else of_class(type(value))


def meant(dtype: Any) -> NumberType | None:
    """The type of numbers of a dtype, ours or NumPy's with a note; None of other dtypes."""
    if type(dtype) is NumberDtype:
        return dtype.numbers
    note = getattr(dtype, "metadata", None)
    return None if note is None else note.get("numbers")


class MixedNumbersError(TypeError):
    """Numbers of two types that do not mix."""


class NoMeaningError(NotImplementedError):
    """Something that numbers of a type cannot do."""

    def __init__(self, function: str, numbers: NumberType, why: str) -> None:
        self.function, self.numbers, self.why = function.strip("_"), numbers, why
        called = self.function or "This function"
        super().__init__(f"{called} has no meaning for numbers of type {numbers.name}: {why}.")

    def inside(self, operator: str) -> NoMeaningError:
        """The same error of an operator that needs the function."""
        name = operator.strip("_")
        if not self.function or self.function == name:
            return NoMeaningError(name, self.numbers, self.why)
        return NoMeaningError(name, self.numbers, f"it needs {self.function}, and {self.why}")


def no_meaning(function: str, numbers: NumberType, why: str = "") -> NoMeaningError:
    """What a type of numbers cannot do; `function` is torch's name, or empty."""
    reason = why or (
        f"the table of {numbers.name} has no such function. Give it one with "
        f"torch.autograd.numbers.register_numbers({numbers.name}, {function.strip('_')}=...), if "
        "there is one"
    )
    return NoMeaningError(function, numbers, reason)
