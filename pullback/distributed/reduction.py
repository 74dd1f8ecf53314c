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
    PREMUL_SUM = 8

    def __init__(self, number: int) -> None:
        # By what a rank's numbers are multiplied before they are summed: of PREMUL_SUM alone.
        self.factor: float | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReduceOp) and self._value_ == other._value_

    def __hash__(self) -> int:
        return int(self._value_)

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.factor is not None:
            return _make_nccl_premul_sum, (self.factor,)
        return super().__reduce_ex__(protocol)

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


def _make_nccl_premul_sum(factor: Any) -> ReduceOp:
    """PREMUL_SUM with its factor: a number, or a tensor of one, which may be this rank's own."""
    number = getattr(factor, "numel", None)
    if number is not None:
        if number() != 1:
            raise RuntimeError(f"PREMUL_SUM has one factor, got a tensor of {number()} numbers.")
        factor = factor.item()
    if isinstance(factor, bool) or not isinstance(factor, (int, float)):
        raise TypeError(f"PREMUL_SUM's factor is a real number, got {type(factor).__name__}.")
    made = object.__new__(ReduceOp)  # equal to the plain one, as flags of enums are made
    made._name_, made._value_ = "PREMUL_SUM", ReduceOp.PREMUL_SUM.value
    made.factor = float(factor)
    return made


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


def check_op(op: ReduceOp, dtype: numpy.dtype[Any], backend: str) -> None:
    """Refuse an operation that has no meaning for these numbers, or not by this back end."""
    if op is ReduceOp.SUM:
        return
    kind = dtype.kind
    if op in _BITWISE and kind not in "biu":
        raise RuntimeError(f"ReduceOp.{op.name} is for integers and bools, got {dtype.name}.")
    if op in _ORDERED and kind == "c":
        raise RuntimeError(f"ReduceOp.{op.name} needs numbers in an order, got {dtype.name}.")
    if op is ReduceOp.AVG and kind in "biu":
        raise RuntimeError(f"ReduceOp.AVG is for floating and complex numbers, got {dtype.name}.")
    if op == ReduceOp.PREMUL_SUM:
        _check_premultiplied(op, dtype, backend)


def _check_premultiplied(op: ReduceOp, dtype: numpy.dtype[Any], backend: str) -> None:
    if op.factor is None:
        raise TypeError("ReduceOp.PREMUL_SUM needs its factor: _make_nccl_premul_sum(factor).")
    if backend in ("gloo", "mpi"):
        raise RuntimeError(
            f"ReduceOp.PREMUL_SUM is for 'nccl', and ranks that are threads; this is {backend!r}. "
            "Multiply first, and take SUM."
        )
    if dtype.kind in "biu":
        raise RuntimeError(f"ReduceOp.PREMUL_SUM is for floating numbers, got {dtype.name}.")


def premultiplied(array: Any, op: ReduceOp) -> tuple[Any, ReduceOp]:
    """What engines reduce, and how: PREMUL_SUM is the SUM of products, which are new arrays."""
    if op.factor is None:
        return array, op
    product = array.astype(working_dtype(array.dtype))  # a copy
    product *= op.factor
    return product.astype(array.dtype, copy=False), ReduceOp.SUM


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
