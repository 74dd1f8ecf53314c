"""Arrays that nobody else can see: copies, and those that nobody else holds."""

from __future__ import annotations

from sys import getrefcount
from typing import Any

import numpy

from pullback.core.arrays import Array, OtherArray, namespace
from pullback.core.overriding import DISPATCH
from pullback.operators.writing.writer import block, define


def private_copy(value: Any) -> Array:
    """A row-major array of its own, from an array or a NumPy scalar."""
    if isinstance(value, OtherArray):
        return value.copy()
    return namespace(value).array(value, order="C")


def _counted() -> int:
    """What `getrefcount` says of an object that one local name holds; versions of Python differ."""
    alone = object()
    return getrefcount(alone)


_ALONE = _counted()


def is_sole_reference(array: Any, references: int, others: int = 0) -> bool:
    """Whether an array in a local name, and in `others` places known of, is held by nobody else.

    `references` is `getrefcount` of it, called where the name is. Then its memory may be kept.
    """
    return (
        references <= _ALONE + others
        and type(array) is numpy.ndarray
        and array.base is None
        and array.flags.writeable
    )


def is_sole_tensor(g: Any, references: int, others: int = 0) -> bool:
    """As `is_sole_reference` for a tensor, of the tensor and of its array."""
    if references > _ALONE + others:
        return False
    if g._takes & DISPATCH:  # it has no array of its own
        return True
    array = g._array
    references = getrefcount(array)
    return is_sole_reference(array, references, 1)


# Whether a rule's result `r` for `g` is seen by nobody else. It is new unless it is its argument or
# a view; those are still ours alone if the argument was, no second edge may hold it too, and no
# element of it is repeated. A text, since the loop of the plain pass has it in line.
STILL_OURS = (
    "(r is not g and r.base is None) or "
    "(owned and len(edges) == 1 and (r is g or 0 not in r.strides))"
)
still_ours = define(
    block("def still_ours(r, g, owned, edges)", [f"return {STILL_OURS}"]), {}, "ownership"
)
