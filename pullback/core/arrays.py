"""Array namespaces (NumPy; CuPy adds itself), and Python numbers as arrays."""

from __future__ import annotations

from types import ModuleType
from typing import Any, TypeAlias

import numpy
from numpy import asarray, float32, float64, int64, ndarray

# An array of any namespace; inside a rule also a tensor, since rules serve both.
Array: TypeAlias = Any
Namespace: TypeAlias = Any

F32 = numpy.dtype(float32)
F64 = numpy.dtype(float64)
I64 = numpy.dtype(int64)
SMALLEST, LARGEST = -(2**63), 2**63 - 1  # of int64

NAMESPACES: dict[type, ModuleType] = {ndarray: numpy}


def namespace(array: Array) -> ModuleType:
    """The module whose functions work on `array`."""
    return NAMESPACES.get(type(array), numpy)


def as_array(value: Any) -> Array:
    """NumPy gives scalars where torch gives 0-d tensors; here they become arrays again."""
    return value if type(value) in NAMESPACES or isinstance(value, OtherArray) else asarray(value)


class OtherArray:
    """Base of what stands where tensors have an array, and is none; tensors on it have a class."""

    __slots__ = ()

    tensor_class: type
    dtype: Any
    values: Any
    copy: Any
    astype: Any
    become: Any  # takes over another's contents: a write in place


# A ufunc takes 0.45 us more for a Python number than for an array of no dimensions, so numbers
# that come again are kept, a table for each dtype.
_MOST_NUMBERS = 4096
numbers32: dict[float, ndarray[Any, Any]] = {}
numbers64: dict[float, ndarray[Any, Any]] = {}


def number_array(value: float, dtype: numpy.dtype[Any]) -> ndarray[Any, Any]:
    """`value` as a read-only array of no dimensions, float32 or float64; remembered."""
    try:
        array = numpy.array(value, dtype)
    except OverflowError:
        raise RuntimeError(
            f"An int of {int(value).bit_length()} bits does not fit {dtype}."
        ) from None
    array.flags.writeable = False
    table = numbers64 if dtype is F64 else numbers32
    if value != 0:  # 0.0 and -0.0 are one key, but not one number
        if len(table) >= _MOST_NUMBERS:
            table.clear()
        table[value] = array
    return array


_whole_numbers: dict[int, ndarray[Any, Any]] = {}


def whole_number(value: int) -> ndarray[Any, Any]:
    """The same of an int that int64 can hold."""
    known = _whole_numbers.get(value)
    if known is None:
        known = numpy.array(value, I64)
        known.flags.writeable = False
        if len(_whole_numbers) >= _MOST_NUMBERS:
            _whole_numbers.clear()
        _whole_numbers[value] = known
    return known


class _Loose:
    """Stands where the array of a number will be, until its dtype is known."""

    dtype = None


LOOSE = _Loose()
