"""Which dtype numbers of some type and other operands meet in."""

from __future__ import annotations

from pullback.core.dtype import FLOATING, dtype
from pullback.core.numbers.array import joined
from pullback.core.numbers.types import meant

__all__ = ["promote"]


def promote(a: dtype, b: dtype) -> dtype:
    """Of two dtypes, one of which is of numbers; TypeError where digits would be lost or made up.

    Ints and truth values become numbers of any type, and so do fractions. Floats do not: those of
    a tensor are rounded, and nothing tells by how much.
    """
    ours, other = (a, b) if meant(a.numpy) is not None else (b, a)
    numbers = meant(ours.numpy)
    second = meant(other.numpy)
    assert numbers is not None
    if second is not None:
        return joined(numbers, second).dtype
    if other.category < FLOATING:
        return ours
    raise TypeError(
        f"Numbers of type {numbers.name} do not mix with {other}: its elements are rounded to "
        f"{8 * other.itemsize} bits. Convert one of the tensors, with .to({numbers.name}) to take "
        f"each float for the number that it is, or with .to({other})."
    )
