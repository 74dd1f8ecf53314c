"""Array namespaces (NumPy; CuPy adds itself), and Python numbers as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from math import copysign, inf
from types import ModuleType
from typing import Any, TypeAlias

import numpy
from numpy import array, asanyarray, float32, float64, generic, int64, ndarray

# An array of any namespace; inside a rule also a tensor, since rules serve both.
Array: TypeAlias = Any
Namespace: TypeAlias = Any

F32 = numpy.dtype(float32)
F64 = numpy.dtype(float64)
I64 = numpy.dtype(int64)

NAMESPACES: dict[type, ModuleType] = {ndarray: numpy}


class Library:
    """An array library for another device, as the layers below operators see it."""

    def device(self, array: Array) -> Any:
        """Where an array is."""
        raise NotImplementedError

    def address(self, array: Array) -> int:
        """Where its first element is."""
        raise NotImplementedError

    def window(self, array: Array, shape: Any, strides: Any, offset: int) -> Array:
        """A view of its memory: strides in bytes, offset from its first element."""
        raise NotImplementedError

    def call(self, op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A plain call of an operator, with a tensor on such an array."""
        raise NotImplementedError

    def compute(self, op: Any, arrays: dict[str, Any], options: dict[str, Any]) -> Array:
        """The results of an operator's forward."""
        raise NotImplementedError

    def summed(self, array: Array, dims: tuple[int, ...]) -> Array:
        """The sums over dimensions, which go."""
        raise NotImplementedError

    def added(self, total: Array, one: Array, *, into: bool) -> Array:
        """The sum of two arrays of one shape and dtype; in the memory of the first where `into`."""
        raise NotImplementedError

    def recorded(self, node: Any, inputs: Iterable[Any] = ()) -> None:
        """A node was made, of a call on such arrays or on tensors with them."""

    def node_class(self, op: Any) -> type:
        """The class of an operator's nodes, whose rules run on such arrays."""
        raise NotImplementedError

    def on_device_of(self, array: Array) -> AbstractContextManager[Any]:
        """Inside, new arrays are on the device of `array`."""
        raise NotImplementedError

    def settle(self, what: str) -> None:
        """Wait for the work so far; an error says that `what` failed."""
        raise NotImplementedError

    def block(self, array: Array) -> tuple[Any, int]:
        """What is the same for all arrays on one block of memory, and the bytes of it."""
        raise NotImplementedError

    def is_alone(self, array: Array) -> bool:
        """Whether no other array lies on the memory of this one, which is all of a block."""
        return False

    def channel_statistics(self, array: Array, over: Any) -> Any:
        """Mean, inverse deviation and variance of channels, by a kernel; None where it has none."""
        return None

    def follow_statistics(self, known: Any, mean: Array, variance: Array, parts: Any) -> bool:
        """Move running statistics towards those of a batch, in one go; False: it has no kernel."""
        return False


# By type of array; NumPy's own is not among them. Empty in a program that asks for no device.
LIBRARIES: dict[type, Library] = {}


def on_device_of(array: Array) -> AbstractContextManager[Any]:
    """Inside, new arrays are where `array` is, of several devices."""
    library = LIBRARIES.get(type(array))
    return nullcontext() if library is None else library.on_device_of(array)


def recorded_on_devices(node: Any) -> None:
    """A node was made of a call whose arrays nobody has looked at: a user's Function."""
    for library in LIBRARIES.values():
        library.recorded(node)


def some(mask: Array) -> bool:
    """Whether any element holds. A device is not asked, which would wait for it: there, yes.

    Of a wrapper without data of its own nobody can tell: yes as well.

    For a longer way that is right for all values, taken where some of them need it.
    """
    return type(mask) in LIBRARIES or _any_of(mask)


def _any_of(mask: Array) -> bool:
    if mask.dtype.char == "?" and mask.size <= _FEW and type(mask) is numpy.ndarray:
        return bool(mask.tobytes().strip(b"\0"))  # 0.2 us, where `any` takes 1.5
    return hasattr(mask, "_refused") or bool(mask.any())


_FEW = 256


def is_wrong(mask: Array) -> bool:
    """Whether any element holds, for checks of values: nobody looks at those on a device."""
    return type(mask) not in LIBRARIES and _any_of(mask)


def is_finite(array: Array) -> bool:
    """Whether a product with zeros is 0: no infinity, no NaN, and nothing near to overflow.

    Nobody looks at the values of those on a device, or of objects.
    """
    if type(array) in LIBRARIES or array.dtype.char == "#":
        return False
    flat = array.ravel()  # half of the time of `reshape`
    return bool(flat.dot(flat) < inf)


def library_among(values: Iterable[Any]) -> Library | None:
    """The library of a device whose arrays are among `values`, or in a tuple among them."""
    for one in values:
        found = LIBRARIES.get(type(one))
        if found is None and type(one) is tuple:
            found = library_among(one)
        if found is not None:
            return found
    return None


def namespace(array: Array) -> ModuleType:
    """The module whose functions work on `array`."""
    return NAMESPACES.get(type(array), numpy)


# The classes of NumPy's scalars.
SCALARS = frozenset(numpy.sctypeDict.values())


def as_array(value: Any) -> Array:
    """NumPy gives scalars where torch gives 0-d tensors; here they become arrays again."""
    if isinstance(value, generic):
        return array(value)
    if type(value) in NAMESPACES or isinstance(value, OtherArray):
        return value
    return asanyarray(value)  # keeps subclasses: arrays without data stay what they are


class OtherArray:
    """Base of what stands where tensors have an array, and is none; tensors on it have a class."""

    __slots__ = ()

    tensor_class: type
    dtype: Any
    values: Any
    copy: Any
    astype: Any
    become: Any  # takes over another's contents: a write in place


# A ufunc takes 0.45 us more for a Python number than for an array of no dimensions, so numbers
# that come again are kept, a table for each dtype.
_MOST_NUMBERS = 4096


class _Numbers(dict[float, "ndarray[Any, Any]"]):
    """Python numbers as read-only arrays of no dimensions, of float32 or float64."""

    __slots__ = ("dtype", "zeros")

    def __init__(self, dtype: numpy.dtype[Any]) -> None:
        self.dtype = dtype
        self.zeros = _constant(0.0, dtype), _constant(-0.0, dtype)

    def __missing__(self, value: float) -> ndarray[Any, Any]:
        if value == 0:  # 0.0 and -0.0 would be one key, but are not one number
            return self.zeros[copysign(1.0, value) < 0]
        try:
            made = _constant(value, self.dtype)
        except OverflowError:
            raise RuntimeError(
                f"An int of {int(value).bit_length()} bits does not fit {self.dtype}."
            ) from None
        if len(self) >= _MOST_NUMBERS:
            self.clear()
        self[value] = made
        return made


def _constant(value: float, dtype: numpy.dtype[Any]) -> ndarray[Any, Any]:
    made = array(value, dtype)
    made.flags.writeable = False
    return made


numbers32, numbers64 = _Numbers(F32), _Numbers(F64)


def number_array(value: float, dtype: numpy.dtype[Any]) -> ndarray[Any, Any]:
    """`value` as a read-only array of no dimensions, float32 or float64; remembered."""
    return (numbers64 if dtype is F64 else numbers32).__missing__(value)


class _WholeNumbers(dict[int, "ndarray[Any, Any]"]):
    """The same of ints beside int64; what int64 cannot hold, or is no int, has no dtype yet."""

    __slots__ = ()

    def __getitem__(self, value: float) -> Any:
        if value.__class__ is not int:
            return LOOSE  # 1.0 is as good a key as 1
        known = self.get(value)
        if known is None:
            if not -(2**63) <= value < 2**63:
                return LOOSE
            known = _constant(value, I64)
            if len(self) >= _MOST_NUMBERS:
                self.clear()
            self[value] = known
        return known


class _Loose:
    """Stands where the array of a number will be, until its dtype is known."""

    dtype = None


LOOSE = _Loose()


class _LooseNumbers:
    """Beside other dtypes it takes a closer look."""

    __slots__ = ()

    def __getitem__(self, value: float) -> Any:
        return LOOSE


class _Tables(dict[Any, Any]):
    """Numbers beside an array of a dtype, as operators take them: `numbers[a.dtype][2.0]`."""

    __slots__ = ()

    def __missing__(self, dtype: Any) -> Any:
        return _LOOSE_NUMBERS


_LOOSE_NUMBERS = _LooseNumbers()
numbers = _Tables({F32: numbers32, F64: numbers64, I64: _WholeNumbers()})
