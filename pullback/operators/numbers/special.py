"""Functions of one element and an option, from the table of a type of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.numbers.array import operand
from pullback.core.numbers.types import NumberType, no_meaning

__all__ = ["KERNEL_OVERRIDES"]


def _polygamma(numbers: NumberType, input: Array, n: int) -> Array:
    """The table's function takes the order first, as torch's does."""
    own = numbers.functions.get("polygamma")
    if own is None:
        raise no_meaning("polygamma", numbers)
    made = numpy.empty(input.shape, object)
    for place, one in numpy.ndenumerate(operand(numbers, input)):
        made[place] = own(n, one)
    return made


KERNEL_OVERRIDES: dict[str, Callable[..., Any]] = {"polygamma": _polygamma}
