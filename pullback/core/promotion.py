"""Which dtype an operator computes in: torch's promotion rules.

Its own file because they are rules of three ranks (arrays with dimensions, 0-d arrays, Python
numbers), where NumPy's are others. A lower rank counts only where its category (bool <
integral < floating < complex) is higher: a float32 matrix times a float64 0-d tensor stays float32,
an int64 one becomes float64. Functions here speak in NumPy dtypes, for operators; the three public
ones at the end speak in ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Protocol

import numpy

from pullback.core.dtype import (
    BOOL,
    BY_NUMPY,
    COMPLEX,
    FLOATING,
    INTEGRAL,
    OF_NUMBERS,
    NumpyDtype,
    as_dtype,
    bool_,
    default,
    dtype,
    float32,
    from_numpy_dtype,
    int8,
    int16,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

# Torch keeps these to themselves: they meet floating-point dtypes and their own kind only.
_WIDE_UNSIGNED = frozenset((uint16, uint32, uint64))
_BYTES = frozenset((uint8, int8))


def is_half(dtype: NumpyDtype) -> bool:
    """Whether a dtype is float16 or bfloat16, whose arithmetic is float32's, rounded."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


class _HasDtype(Protocol):
    @property
    def dtype(self) -> NumpyDtype: ...


def _is_byte(d: dtype) -> bool:
    """Whether a dtype is one of the floats of 8 bits."""
    return d.category == FLOATING and d.itemsize == 1


def _promote(a: dtype, b: dtype) -> dtype:
    """The dtype that two operands of the same rank meet in."""
    if a is b:
        return a
    if OF_NUMBERS in (a.numpy.char, b.numpy.char):
        return _promote_numbers(a, b)
    if _is_byte(a) or _is_byte(b):
        raise RuntimeError(
            f"{a} and {b} have no common dtype: floating-point dtypes of 8 bits are never "
            "promoted; convert one operand first, for example with .to(torch.float32)"
        )
    low, high = sorted((a, b), key=lambda d: (d.category, d.itemsize))
    if high.category != FLOATING and (low in _WIDE_UNSIGNED or high in _WIDE_UNSIGNED):
        raise RuntimeError(
            f"{a} and {b} have no common dtype: torch.uint16, torch.uint32 and torch.uint64 are "
            "promoted with floating-point dtypes only; convert one operand first, for example "
            "with .to(torch.int64)"
        )
    if high.category == COMPLEX and low.category == FLOATING:
        return _promote(high.to_real(), low).to_complex()
    if low.category < high.category:
        return high
    if {low, high} == _BYTES:
        return int16
    if low.itemsize == high.itemsize and low.category == FLOATING:
        return float32  # float16 and bfloat16: neither holds the other's values
    return high


def _promote_numbers(a: dtype, b: dtype) -> dtype:
    """The same where one is of numbers of another type: ints and fractions become those."""
    made: dtype = import_module("pullback.core.numbers.promotion").promote(a, b)
    return made


def _outrank(higher: dtype, lower: dtype) -> dtype:
    """The dtype of an operand of higher rank together with one of lower rank."""
    if OF_NUMBERS in (higher.numpy.char, lower.numpy.char):
        return higher if higher is lower else _promote_numbers(higher, lower)
    if lower.category <= higher.category:
        return higher
    if higher.category == FLOATING:
        return higher.to_complex()
    # Not _promote for integers: torch lets uint16 meet a complex number here, though not there.
    if higher.category == INTEGRAL and not _is_byte(lower):
        return lower
    return _promote(higher, lower)


# Filled as pairs are met: all pairs at import would be time that few programs need.
_PROMOTED: dict[tuple[NumpyDtype, NumpyDtype], NumpyDtype] = {}
_OUTRANKED: dict[tuple[NumpyDtype, NumpyDtype], NumpyDtype] = {}


def promote_dtypes(a: NumpyDtype, b: NumpyDtype) -> NumpyDtype:
    """`promote_types` for NumPy dtypes; remembered.

    Example:
        >>> import numpy as np
        >>> from pullback.core.promotion import promote_dtypes
        >>> promote_dtypes(np.dtype("float32"), np.dtype("int64"))  # float64 by NumPy's rules
        dtype('float32')
    """
    try:
        return _PROMOTED[a, b]
    except KeyError:
        result = _promote(from_numpy_dtype(a), from_numpy_dtype(b)).numpy
        return _PROMOTED.setdefault((a, b), result)


def _outrank_dtypes(higher: NumpyDtype, lower: NumpyDtype) -> NumpyDtype:
    try:
        return _OUTRANKED[higher, lower]
    except KeyError:
        result = _outrank(from_numpy_dtype(higher), from_numpy_dtype(lower)).numpy
        return _OUTRANKED.setdefault((higher, lower), result)


_ARRAY = -2
# What an operand of a given type is: an array, or a number of a category.
_KINDS: dict[type, int] = {
    numpy.ndarray: _ARRAY,
    bool: BOOL,
    int: INTEGRAL,
    float: FLOATING,
    complex: COMPLEX,
}


def _kind_of(operand: object) -> int:
    """The kind of what is no plain array or number: an enum, a NumPy scalar, another array."""
    if isinstance(operand, numpy.generic):
        return from_numpy_dtype(operand.dtype).category
    if isinstance(operand, complex):
        return COMPLEX
    if isinstance(operand, int | float):
        return INTEGRAL if isinstance(operand, int) else FLOATING
    if hasattr(operand, "ndim") and hasattr(operand, "dtype"):
        return _ARRAY
    raise TypeError(
        f"expected a tensor, an array or a number, got {operand!r} of type {type(operand).__name__}"
    )


def _number_dtype(category: int) -> NumpyDtype:
    """What numbers of a category become where no array says otherwise."""
    if category == FLOATING:
        return default.numpy
    if category == COMPLEX:
        return default.complex_numpy
    return int64.numpy if category == INTEGRAL else bool_.numpy


def dtype_with_number(array_dtype: NumpyDtype, number: complex) -> NumpyDtype:
    """The dtype of one array together with one Python number or NumPy scalar.

    Example:
        >>> import numpy as np
        >>> from pullback.core.promotion import dtype_with_number
        >>> dtype_with_number(np.dtype("int8"), 2), dtype_with_number(np.dtype("int8"), 2.0)
        (dtype('int8'), dtype('float32'))
    """
    category = _KINDS.get(type(number))
    if category is None:
        category = _kind_of(number)
    if category == _ARRAY:
        raise TypeError(f"expected a number, got an array of type {type(number).__name__}")
    return _with_category(array_dtype, category)


def _with_category(array_dtype: NumpyDtype, category: int) -> NumpyDtype:
    """The dtype of an array together with a number of a category."""
    known = BY_NUMPY.get(array_dtype) or from_numpy_dtype(array_dtype)
    if category <= known.category:
        return array_dtype
    if known.category == FLOATING:
        return known.to_complex().numpy
    return _number_dtype(category)


def result_dtype(operands: Iterable[Any]) -> NumpyDtype:
    """The dtype of arrays (anything with `ndim` and `dtype`) and Python numbers together.

    NumPy scalars count as Python numbers of their category, as in torch.

    Example:
        >>> import numpy as np
        >>> from pullback.core.promotion import result_dtype
        >>> result_dtype([np.ones(3, "float32"), np.array(1.0), 2])
        dtype('float32')
    """
    dimensioned: NumpyDtype | None = None
    dimensionless: NumpyDtype | None = None
    number = -1
    for x in operands:
        kind = _KINDS.get(type(x))
        if kind is None:
            kind = _kind_of(x)
        if kind != _ARRAY:
            number = kind if kind > number else number
            continue
        own = x.dtype
        if x.ndim:
            dimensioned = own if dimensioned is None else promote_dtypes(dimensioned, own)
        else:
            dimensionless = own if dimensionless is None else promote_dtypes(dimensionless, own)
    return _merge_ranks(dimensioned, dimensionless, number)


def _merge_ranks(
    dimensioned: NumpyDtype | None, dimensionless: NumpyDtype | None, number: int
) -> NumpyDtype:
    """The three ranks into one; `number` is a category, -1 for no number.

    What a number becomes is asked last: under some default dtypes a complex one becomes nothing.
    """
    if dimensionless is None:
        if dimensioned is not None:
            return _with_category(dimensioned, number)
        if number < 0:
            raise TypeError("no dtype follows from no operands; give tensors or numbers")
        return _number_dtype(number)
    if dimensioned is None:
        return _with_category(dimensionless, number)
    if number <= from_numpy_dtype(dimensionless).category:
        return _outrank_dtypes(dimensioned, dimensionless)
    if from_numpy_dtype(dimensioned).category >= min(number, FLOATING):
        return _with_category(dimensioned, number)
    return _with_category(dimensionless, number)


def promote_to_float(numpy_dtype: NumpyDtype) -> NumpyDtype:
    """The dtype that sin, exp or true division compute in: integers and bool become the default.

    Example:
        >>> import numpy as np
        >>> from pullback.core.promotion import promote_to_float
        >>> promote_to_float(np.dtype("int64")), promote_to_float(np.dtype("float64"))
        (dtype('float32'), dtype('float64'))
    """
    known = BY_NUMPY.get(numpy_dtype) or from_numpy_dtype(numpy_dtype)
    return numpy_dtype if known.is_differentiable else default.numpy


def common_dtype(arrays: Iterable[_HasDtype]) -> NumpyDtype:
    """The dtype of arrays joined by cat or stack, where all rank the same; ValueError for none.

    Example:
        >>> import numpy as np
        >>> from pullback.core.promotion import common_dtype
        >>> common_dtype([np.ones(2, "uint8"), np.ones(2, "int8")])
        dtype('int16')
    """
    result: NumpyDtype | None = None
    for array in arrays:
        result = array.dtype if result is None else promote_dtypes(result, array.dtype)
    if result is None:
        raise ValueError("no dtype is common to no arrays; give at least one")
    return result


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that torch's rules convert both to.

    Integers become the floating-point dtype that they meet, whatever their width.

    Example:
        >>> import pullback as torch
        >>> torch.promote_types(torch.int64, torch.float16)
        torch.float16
        >>> torch.promote_types(torch.uint8, torch.int8)
        torch.int16
    """
    return _promote(as_dtype(type1), as_dtype(type2))


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether promotion allows the conversion: not from a higher category to a lower one.

    Width does not count, so `float64` may become `float16`.

    Example:
        >>> import pullback as torch
        >>> torch.can_cast(torch.float64, torch.float16), torch.can_cast(torch.float16, torch.int64)
        (True, False)
    """
    return as_dtype(from_).category <= as_dtype(to).category


# The names that torch's four overloads give to the operands; their order does not matter.
_OPERAND_NAMES = frozenset(("tensor", "other", "x2", "scalar", "scalar1", "scalar2"))


def result_type(*operands: Any, **named: Any) -> dtype:
    """The dtype of an arithmetic operator on these tensors and Python numbers.

    Takes two or more operands, where torch takes two.

    Example:
        >>> import pullback as torch
        >>> torch.result_type(torch.ones(2, dtype=torch.int32), 1.5)
        torch.float32
        >>> torch.result_type(torch.ones(2), torch.tensor(1.5, dtype=torch.float64))
        torch.float32
    """
    if unknown := named.keys() - _OPERAND_NAMES:
        raise TypeError(f"result_type has no argument {', '.join(sorted(unknown))}")
    given = (*operands, *named.values())
    if len(given) < 2:
        raise TypeError(f"result_type needs at least two operands, got {len(given)}")
    return from_numpy_dtype(result_dtype([getattr(x, "_array", x) for x in given]))
