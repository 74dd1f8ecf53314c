"""Cross entropy of many scores by machine code, where each row has a class and all count the same.

512 rows of 40 classes (float32): the losses take 23 us and not 37, their gradient 23 and not 65.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.operators.arrays.native import MANY, by_machine_code

__all__ = ["losses", "slopes"]


def _fits(scores: Array, target: Array, weight: Any, ignored: int) -> bool:
    """Whether this is the way; targets out of range are the other way's to tell of."""
    if weight is not None or scores.size < MANY or scores.__class__ is not numpy.ndarray:
        return False
    if scores.ndim != 2 or target.ndim != 1 or len(target) != len(scores):
        return False
    if scores.dtype.char not in "fd" or target.dtype.char not in "lq":
        return False
    low, high = numpy.minimum.reduce(target), numpy.maximum.reduce(target)
    return bool(low >= 0 and high < scores.shape[1] and not low <= ignored <= high)


def losses(scores: Array, target: Array, weight: Any, ignored: int) -> Array | None:
    """Of each row; None where this is not the way."""
    if not _fits(scores, target, weight, ignored):
        return None
    made = by_machine_code("class_losses", (scores, target), ignored)
    return None if made is None else made[0]


def slopes(g: Array, scores: Array, target: Array, weight: Any, ignored: int) -> Array | None:
    """The gradient of scores, from the one of the sum of all losses; None as above."""
    if not _fits(scores, target, weight, ignored):
        return None
    g = numpy.asarray(g, scores.dtype)
    made = by_machine_code("class_slopes", (g, scores, target), ignored)
    return None if made is None else made[0]
