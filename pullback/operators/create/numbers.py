"""Tensors of numbers that NumPy has no dtype for: fractions, long floats and so on."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.dtype import NumpyDtype
from pullback.core.memory.narrow import converted
from pullback.core.promotion import promote_dtypes
from pullback.core.tensor import Tensor

__all__ = ["as_number", "is_number", "number_list", "number_range", "numbers_dtype", "of_numbers"]

_USUAL = (int, float, complex, numpy.generic, numpy.ndarray, Tensor, str, bytes)


def is_number(value: Any) -> bool:
    """Whether a value is such a number."""
    if isinstance(value, _USUAL) or value is None:
        return False
    from pullback.core.numbers.types import of_class

    return of_class(type(value)) is not None


def as_number(value: Any) -> Tensor:
    """Such a number as a tensor of no dimensions."""
    from pullback.operators.running.on_numbers import as_tensor

    made: Tensor = as_tensor(value)
    return made


def numbers_dtype(kinds: set[type]) -> NumpyDtype | None:
    """The dtype of elements of these types, if one of them is of such numbers; else None.

    Python's ints join, and so does what is written as a float: `0.1` is one tenth.
    """
    from pullback.core.numbers.types import of_class

    found: NumpyDtype | None = None
    for kind in kinds:
        if issubclass(kind, _USUAL):
            continue
        numbers = of_class(kind)
        if numbers is None:
            return None
        own: Any = numbers.numpy
        found = own if found is None else promote_dtypes(found, own)
    return found


def of_numbers(op: str, data: Any, wanted: Any) -> Array:
    """The values of `data` as a new array of numbers; text is read as one of them."""
    numbers = wanted.numbers
    source = getattr(data, "_array", data)
    if isinstance(source, numpy.ndarray | numpy.generic):
        return converted(numpy.asanyarray(source), wanted)
    flat, shape = _flattened(op, data)
    elements = [numbers.parsed(one) if isinstance(one, str) else one for one in flat]
    return number_list(elements, wanted).reshape(shape)


def number_list(flat: list[Any], wanted: Any) -> Array:
    """A 1-d array of numbers of one type."""
    from pullback.core.numbers.array import taken

    numbers = wanted.numbers
    made = numpy.empty(len(flat), object)
    for place, one in enumerate(flat):
        element = getattr(one, "_array", one)
        made[place] = element.item() if isinstance(element, numpy.ndarray) else element
    return taken(made, numbers)


def number_range(first: Any, last: Any, by: Any, wanted: Any) -> Array:
    """The numbers from `first` on in steps of `by`, those before `last`."""
    from pullback.core.numbers.functions import compared

    numbers = wanted.numbers
    first, last, by = (numbers.element(one) for one in (first, last, by))
    less, zero = compared(numbers, "less"), numbers.element(0)
    if not less(zero, by) and not less(by, zero):
        raise RuntimeError(f"arange(): step must not be {by}.")
    made: list[Any] = []
    one = first
    while less(one, last) if less(zero, by) else less(last, one):
        made.append(one)
        one = first + numbers.element(len(made)) * by
    return number_list(made, wanted)


def _flattened(op: str, data: Any) -> tuple[list[Any], tuple[int, ...]]:
    """All elements of nested sequences, and their shape."""
    level: list[Any] = [data]
    shape: list[int] = []
    while level and isinstance(level[0], list | tuple | range):
        lengths = {len(part) if isinstance(part, list | tuple | range) else -1 for part in level}
        if len(lengths) > 1:
            raise ValueError(
                f"{op}(): the sequences at dim {len(shape)} have lengths {sorted(lengths)}; all "
                "must have the same length."
            )
        shape.append(lengths.pop())
        level = list(chain.from_iterable(level))
    return level, tuple(shape)
