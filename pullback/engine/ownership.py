"""Arrays that nobody else can see: copies, and those that nobody else holds."""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy

from pullback.core.arrays import LIBRARIES, Array, OtherArray, namespace
from pullback.core.overriding import DISPATCH


def private_copy(value: Any) -> Array:
    """A row-major array of its own, from an array or a NumPy scalar."""
    if isinstance(value, OtherArray):
        return value.copy()
    return namespace(value).array(value, order="C")


def _counted() -> int:
    """What `getrefcount` says of an object that one local name holds; versions of Python differ."""
    alone = object()
    return getrefcount(alone)


ALONE = _counted()


def is_sole_reference(array: Any, references: int, others: int = 0) -> bool:
    """Whether an array in a local name, and in `others` places known of, is held by nobody else.

    `references` is `getrefcount` of it, called where the name is. Then its memory may be kept.
    """
    if references > ALONE + others:
        return False
    if type(array) is not numpy.ndarray:
        library = LIBRARIES.get(type(array))
        return library is not None and library.is_alone(array)
    base = array.base
    if base is not None:  # all of an array that nobody but this view of it holds
        if type(base) is not numpy.ndarray or base.base is not None or base.size != array.size:
            return False
        if getrefcount(base) > ALONE + 1 or 0 in array.strides:
            return False
    return bool(array.flags.writeable)


def is_sole_tensor(g: Any, references: int, others: int = 0) -> bool:
    """As `is_sole_reference` for a tensor, of the tensor and of its array."""
    if references > ALONE + others:
        return False
    if g._overrides & DISPATCH:  # it has no array of its own
        return True
    array = g._array
    references = getrefcount(array)
    return is_sole_reference(array, references, 1)
