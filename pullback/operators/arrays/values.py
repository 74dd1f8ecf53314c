"""Python's numbers as elements of a dtype: what fits, what wraps around, what is refused."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.dtype import NARROW, OF_NUMBERS, NumpyDtype, from_numpy_dtype, int64
from pullback.core.limits import finfo
from pullback.core.memory.narrow import converted, is_of_numbers, number_array, wide

__all__ = ["fill_number", "numbers_as_array"]

_INT64 = int64.numpy
_REAL_NUMBERS = ({float}, {int, float})


def numbers_as_array(
    op: str, numbers: list[Any], kinds: Collection[type], dtype: NumpyDtype
) -> Array:
    """A 1-d array of Python numbers (of these types); RuntimeError for what the dtype cannot hold.

    Floats go into floats as they can (1e40 is inf in float32), into integers without fraction.
    """
    kind = dtype.kind
    if dtype.char == OF_NUMBERS:
        return numpy.concatenate([number_array(one, dtype)[None] for one in numbers])
    if kind == "f" and kinds in _REAL_NUMBERS and dtype not in NARROW:
        return numpy.array(numbers, dtype)  # the usual case
    if not all(issubclass(kind, int | float | complex) for kind in kinds):
        numbers = _as_numbers(op, numbers, kind)
    elif kind not in "cbW" and any(issubclass(kind, complex) for kind in kinds):
        raise TypeError(f"{op}(): complex numbers cannot become {from_numpy_dtype(dtype)}.")
    try:
        if kind == "b":
            return numpy.array([bool(number) for number in numbers], dtype)
        if kind in "iu":
            return _integers(op, numbers, kinds, dtype)
        if dtype in NARROW:
            return converted(numpy.array(numbers), dtype)
        if kind == "V":  # bfloat16, which knows fewer of Python's numbers
            return numpy.array(numbers, numpy.float64).astype(dtype)
        return numpy.array(numbers, dtype)
    except OverflowError as error:
        raise _does_not_fit(op, error, dtype) from None


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "b": bool,
    "c": complex,
    "f": float,
    "V": float,
    "W": complex,
}


def _as_numbers(op: str, elements: list[Any], kind: str) -> list[Any]:
    """Elements of other types (fractions, decimals) by Python's own conversions."""
    convert = _CONVERSIONS.get(kind, operator.index)
    for element in elements:
        if isinstance(element, str | bytes):
            raise TypeError(f"{op}(): text cannot become a tensor, got {element!r}.")
    return [convert(element) for element in elements]


def _integers(op: str, numbers: list[Any], kinds: Collection[type], dtype: NumpyDtype) -> Array:
    if any(issubclass(kind, float) for kind in kinds):
        for number in numbers:
            _check_float_fits(op, number, dtype)
        numbers = [int(number) for number in numbers]
    try:
        return numpy.array(numbers, dtype)
    except OverflowError:
        return numpy.array([_wrapped(op, int(number), dtype) for number in numbers], dtype)


def _check_float_fits(op: str, number: Any, dtype: NumpyDtype) -> None:
    limits = numpy.iinfo(dtype)
    if not limits.min <= number <= limits.max:  # NaN is not between them either
        raise _does_not_fit(op, number, dtype)


def _wrapped(op: str, number: int, dtype: NumpyDtype) -> int:
    """Torch counts negative numbers down from the top of unsigned dtypes, and refuses all else."""
    limits = numpy.iinfo(dtype)
    if limits.min == 0 and -limits.max <= number < 0:
        return number + limits.max + 1
    if limits.min <= number <= limits.max:
        return number
    if dtype == _INT64:
        raise ValueError(
            f"{op}(): {number} does not fit torch.int64. Give a floating-point dtype, or "
            "torch.uint64."
        )
    raise _does_not_fit(op, number, dtype)


def _does_not_fit(op: str, number: object, dtype: NumpyDtype) -> RuntimeError:
    return RuntimeError(
        f"{op}(): {number} does not fit {from_numpy_dtype(dtype)}; give a wider dtype."
    )


_FITS_ALL = 127  # a number smaller than that fits every dtype


def fill_number(op: str, value: Any, dtype: NumpyDtype) -> Any:
    """A number that may fill a tensor of a dtype; RuntimeError if the dtype cannot hold it."""
    if dtype.char == OF_NUMBERS:
        return number_array(value, dtype)
    kind = type(value)
    small = kind is not complex and -_FITS_ALL < value < _FITS_ALL
    if small and (dtype.kind in "fcVW" or (kind is int and value >= 0 and dtype.kind != "b")):
        return value
    if isinstance(value, complex) and dtype.kind not in "cbW":
        if value.imag:
            raise _does_not_fit(op, value, dtype)
        value = value.real
    try:
        array = numbers_as_array(op, [value], (type(value),), dtype).reshape(())
    except ValueError:
        raise _does_not_fit(op, value, dtype) from None
    if not _has_place(value, dtype):
        raise _does_not_fit(op, value, dtype)
    if numpy.isinf(wide(array)) and numpy.isfinite(complex(value)) and dtype.itemsize >= 4:
        raise _does_not_fit(op, value, dtype)
    return array.item()


def _has_place(value: Any, dtype: NumpyDtype) -> bool:
    """Whether a number is in the range of a dtype that has no infinity to round to."""
    if dtype not in NARROW or not dtype.name.startswith("float8_e4"):
        return True
    return bool(abs(value) <= finfo(from_numpy_dtype(dtype)).max)


def number_argument(op: str, name: str, value: Any) -> Any:
    """A Python number, NumPy scalar or 0-d tensor as a Python number; TypeError for all else."""
    if isinstance(value, bool | int | float | complex) and not isinstance(value, numpy.generic):
        return value
    array = getattr(value, "_array", value)
    if array is value and is_of_numbers(value):
        return value
    single = isinstance(array, numpy.generic) or (array is not value and array.ndim == 0)
    if not single or getattr(value, "requires_grad", False):
        given = "a tensor that requires grad or has dimensions" if array is not value else ""
        raise TypeError(f"{op}(): {name} must be a number, got {given or type(value).__name__}.")
    return array.item()
