"""How contributions of several ranks become one: `ReduceOp`, and its arithmetic on arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy

__all__ = ["ReduceOp"]


class ReduceOp(Enum):
    """What a reducing collective does with the ranks' numbers.

    >>> from pullback.distributed import ReduceOp
    >>> ReduceOp.SUM.name
    'SUM'
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7

    @classmethod
    def of(cls, name: Any) -> ReduceOp:
        """The operation, by itself or by a name such as "sum"."""
        if isinstance(name, cls):
            return name
        known = {"prod": "PRODUCT", "mean": "AVG"}
        text = str(name)
        try:
            return cls[known.get(text.lower(), text.upper())]
        except KeyError:
            names = ", ".join(op.name for op in cls)
            raise ValueError(f"{name!r} is no reduction; there are {names}.") from None


# Torch's operations are of a class of their own inside this one.
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]  # what is set on an Enum later is unknown


_UFUNCS: dict[ReduceOp, Callable[..., Any]] = {
    ReduceOp.SUM: numpy.add,
    ReduceOp.AVG: numpy.add,
    ReduceOp.PRODUCT: numpy.multiply,
    ReduceOp.MIN: numpy.minimum,
    ReduceOp.MAX: numpy.maximum,
    ReduceOp.BAND: numpy.bitwise_and,
    ReduceOp.BOR: numpy.bitwise_or,
    ReduceOp.BXOR: numpy.bitwise_xor,
}
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
_ORDERED = (ReduceOp.MIN, ReduceOp.MAX)


def check_op(op: ReduceOp, dtype: numpy.dtype[Any]) -> None:
    """Refuse an operation that has no meaning for these numbers."""
    kind = dtype.kind
    if op in _BITWISE and kind not in "biu":
        raise RuntimeError(f"ReduceOp.{op.name} is for integers and bools, got {dtype.name}.")
    if op in _ORDERED and kind == "c":
        raise RuntimeError(f"ReduceOp.{op.name} needs numbers in an order, got {dtype.name}.")
    if op is ReduceOp.AVG and kind in "biu":
        raise RuntimeError(f"ReduceOp.AVG is for floating and complex numbers, got {dtype.name}.")


def working_dtype(dtype: numpy.dtype[Any]) -> numpy.dtype[Any]:
    """In which dtype sums are made: half precision would lose what ranks add."""
    if dtype.itemsize == 2 and dtype.kind not in "iu":  # float16, and bfloat16 of ml_dtypes
        return numpy.dtype(numpy.float32)
    return dtype


def reduce_in_order(arrays: Sequence[Any], op: ReduceOp) -> Any:
    """A new array: the first rank's numbers, then the second's, ...: the same bits every time."""
    first = arrays[0]
    ufunc = _UFUNCS[op]
    total = first.astype(working_dtype(first.dtype))  # a copy
    for array in arrays[1:]:
        ufunc(total, array, out=total, casting="unsafe")
    if op is ReduceOp.AVG:
        total /= len(arrays)
    return total.astype(first.dtype, copy=False)
