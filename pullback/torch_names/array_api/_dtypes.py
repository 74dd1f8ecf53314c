"""Dtypes as the standard combines them: promotion, kinds, limits; and operands brought together.

The standard's promotion differs from torch's in two ways. A 0-d array counts as much as any other,
and the wide unsigned integers meet the others: uint16 and int16 give int32.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pullback as torch
from pullback import Tensor, dtype
from pullback.core.limits import finfo as _limits_of_float
from pullback.core.limits import iinfo as _limits_of_int

__all__ = ["astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)
FLOATING = (torch.float32, torch.float64)
COMPLEX = (torch.complex64, torch.complex128)

KINDS: dict[str, tuple[dtype, ...]] = {
    "bool": (torch.bool,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": (*SIGNED, *UNSIGNED),
    "real floating": FLOATING,
    "complex floating": COMPLEX,
    "numeric": (*SIGNED, *UNSIGNED, *FLOATING, *COMPLEX),
}
NUMBERS = (bool, int, float, complex)
NAMED = {one._name: one for kind in ("bool", "numeric") for one in KINDS[kind]}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: a name of the standard, another dtype, or a tuple of them.

    float16 and bfloat16, which the standard does not know, are real floating.

    >>> import pullback.array_api as xp
    >>> xp.isdtype(xp.float32, "real floating"), xp.isdtype(xp.int8, ("bool", xp.int64))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if not isinstance(kind, str):
        return dtype is _dtype(kind)
    if kind not in KINDS:
        raise ValueError(f"isdtype: no kind is called {kind!r}; there are {', '.join(KINDS)}.")
    if dtype.is_floating_point:
        return kind in ("real floating", "numeric")
    return dtype in KINDS[kind] or (dtype.is_complex and kind in ("complex floating", "numeric"))


def result_type(*arrays_and_dtypes: Any) -> dtype:
    """The dtype in which arrays, dtypes and Python numbers meet.

    0-d arrays count as others do. A Python number takes the dtype of the arrays, unless it is of a
    higher kind: then a default dtype is met.

    >>> import pullback.array_api as xp
    >>> xp.result_type(xp.uint16, xp.int16), xp.result_type(xp.ones(2), 1)
    (torch.int32, torch.float32)
    """
    known = [_dtype(one) for one in arrays_and_dtypes if not isinstance(one, NUMBERS)]
    if not known:
        raise ValueError("result_type: needs an array or a dtype, got none.")
    result = known[0]
    for other in known[1:]:
        result = _promoted(result, other)
    for number in arrays_and_dtypes:
        if isinstance(number, NUMBERS):
            result = torch.result_type(torch.empty(1, dtype=result), number)
    return result


def _dtype(of: Any) -> dtype:
    found = of.dtype if isinstance(of, Tensor) else of
    if isinstance(of, str) and of in NAMED:  # as xarray asks: how wide a Python number must be
        found = NAMED[of]
    if not isinstance(found, dtype):
        raise TypeError(
            f"expected an array or a dtype of this namespace, got {of!r} of type "
            f"{type(of).__name__}."
        )
    return found


def _promoted(a: dtype, b: dtype) -> dtype:
    if a in UNSIGNED and b in UNSIGNED:
        return max(a, b, key=lambda one: one.itemsize)
    if a in UNSIGNED and b in SIGNED:
        a, b = b, a
    if a not in SIGNED or b not in UNSIGNED:
        if torch.bool in (a, b):  # torch has none for bool and the wide unsigned
            return b if a is torch.bool else a
        if a.is_complex and b in UNSIGNED:
            return a
        if b.is_complex and a in UNSIGNED:
            return b
        return torch.promote_types(a, b)
    if b is torch.uint64:
        raise TypeError(
            f"{a} and torch.uint64 have no common dtype: no integer holds the values of both. "
            "Convert one of them first, for example with astype(x, xp.float64)."
        )
    return next(one for one in SIGNED if one.itemsize >= max(a.itemsize, 2 * b.itemsize))


def can_cast(from_: Any, to: dtype, /) -> bool:
    """Whether promotion may turn one dtype into another.

    >>> import pullback.array_api as xp
    >>> xp.can_cast(xp.int8, xp.int32), xp.can_cast(xp.float64, xp.float32)
    (True, False)
    """
    source = _dtype(from_)
    try:
        return _promoted(source, _dtype(to)) is to
    except (TypeError, RuntimeError):
        return False


def astype(x: Tensor, dtype: dtype, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The elements in another dtype; a copy even where nothing changes, unless `copy=False`.

    >>> import pullback.array_api as xp
    >>> xp.astype(xp.asarray([1.5, 2.5]), xp.int64)
    tensor([1, 2])
    """
    if x.dtype.is_complex and not dtype.is_complex:
        raise TypeError(
            f"astype: {x.dtype} to {dtype} would lose the imaginary part; take xp.real(x) first."
        )
    return x.to(device=x.device if device is None else device, dtype=dtype, copy=copy)


class FloatInfo(NamedTuple):
    """What `finfo` gives."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: dtype


class IntInfo(NamedTuple):
    """What `iinfo` gives."""

    bits: int
    max: int
    min: int
    dtype: dtype


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating-point dtype, or of an array's; of a complex one, those of its parts.

    >>> import pullback.array_api as xp
    >>> xp.finfo(xp.float32).eps, xp.finfo(xp.complex128).dtype
    (1.1920928955078125e-07, torch.float64)
    """
    real = _dtype(type).to_real()
    found = _limits_of_float(real)
    return FloatInfo(
        found.bits,
        float(found.eps),
        float(found.max),
        float(found.min),
        float(found.smallest_normal),
        real,
    )


def iinfo(type: Any, /) -> IntInfo:
    """The limits of an integer dtype, or of an array's.

    >>> import pullback.array_api as xp
    >>> xp.iinfo(xp.uint8).max
    255
    """
    own = _dtype(type)
    found = _limits_of_int(own)
    return IntInfo(found.bits, int(found.max), int(found.min), own)


def together(name: str, *operands: Any) -> list[Tensor]:
    """Arrays and Python numbers as arrays of the one dtype that they meet in."""
    arrays = [one for one in operands if isinstance(one, Tensor)]
    if not arrays:
        raise TypeError(f"{name}: needs an array, got only Python numbers.")
    for one in operands:
        if not isinstance(one, (Tensor, *NUMBERS)):
            raise TypeError(
                f"{name}: expected an array of this namespace or a Python number, got "
                f"{type(one).__name__}; asarray() makes one."
            )
    met = result_type(*operands)
    where = arrays[0].device
    return [
        torch.full((), one, dtype=met, device=where)
        if not isinstance(one, Tensor)
        else one
        if one.dtype is met
        else one.to(met)
        for one in operands
    ]


def check_array(name: str, x: Any) -> None:
    """Refuse what is no array of this namespace."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"{name}: expected an array of this namespace, got {type(x).__name__}; asarray() makes "
            "one."
        )
