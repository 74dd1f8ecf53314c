"""Arrays of dtypes that are for storing: floats of 8 bits, and complex numbers of halves.

NumPy has no such numbers and ml_dtypes, which has, computes with all of them. torch computes with
few operators there, so these arrays are of a class of their own, which knows what is allowed: that
is done in float32 or complex64 and rounded once. Moving elements about works as for all arrays.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy

from pullback.core.dtype import NARROW, OF_NUMBERS, NumpyDtype, from_numpy_dtype

__all__ = ["NarrowArray", "converted", "held", "is_of_numbers", "number_array", "wide"]

# What torch computes in floats of 8 bits, and in complex32; by NumPy's names.
_IN_FLOATS = "absolute conjugate equal isnan matmul multiply not_equal positive square"
_IN_COMPLEX = """
    absolute add conjugate equal isfinite isinf isnan multiply negative not_equal positive sign
    subtract
"""
# Functions of NumPy that move elements and compute nothing.
_MOVING = """
    append array_split atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to can_cast
    choose compress concatenate copy copyto delete diag diagflat diagonal empty_like expand_dims
    extract fill_diagonal flip fliplr flipud full_like hstack imag insert iscomplexobj isrealobj
    may_share_memory moveaxis ndim nonzero ones_like pad place put put_along_axis putmask ravel real
    repeat reshape resize result_type roll rollaxis rot90 select shape shares_memory size split
    squeeze stack swapaxes take take_along_axis tile transpose tril trim_zeros triu vstack where
    zeros_like
"""
_FLOAT_NAMES = frozenset(_IN_FLOATS.split())
_COMPLEX_NAMES = frozenset(_IN_COMPLEX.split())
_MOVING_NAMES = frozenset(_MOVING.split())


def held(array: Any) -> Any:
    """The array as one of these if its dtype is one of those; a view of the same memory."""
    if type(array) is not numpy.ndarray:
        return array
    if array.dtype.kind == "O":
        return _of_numbers(array)
    return array.view(NarrowArray) if array.dtype in NARROW else array


def _of_numbers(array: Any) -> Any:
    """An array of objects with a note that says which numbers they are, as one of those."""
    numbers = (array.dtype.metadata or {}).get("numbers")
    return array if numbers is None else _of_numbers_module("array").filled(array, numbers)


def _of_numbers_module(name: str) -> Any:
    """A module of core/numbers, which few need: exported programs leave it out."""
    return import_module(f"pullback.core.numbers.{name}")


def wide(array: Any) -> Any:
    """The values in float32 or complex64, which hold all of them; other arrays as they are."""
    if array.dtype not in NARROW or array.dtype.char == OF_NUMBERS:
        return array
    plain = array.view(numpy.ndarray)
    return plain.astype(numpy.complex64 if _is_complex(array.dtype) else numpy.float32)


def converted(array: Any, dtype: NumpyDtype, order: Any = "K") -> Any:
    """The values of any array in any dtype, rounded as torch does it."""
    if dtype.char == OF_NUMBERS or array.dtype.char == OF_NUMBERS:
        return _of_numbers_module("array").converted(array, dtype, order)
    values = wide(array)
    if dtype not in NARROW:
        if values.dtype.kind == "c" and dtype.kind not in "cb":
            values = values.real
        return values.astype(dtype, order)
    if not _is_complex(dtype):
        return _small_floats(values, dtype, order)
    if values.dtype.kind != "c":
        values = values.astype(numpy.float32)
    return values.astype(dtype, order).view(NarrowArray)


def number_array(value: Any, dtype: NumpyDtype) -> Any:
    """A Python number as an array of no dimensions, in one of these dtypes."""
    if dtype.char != OF_NUMBERS:
        return converted(numpy.array(value), dtype)
    return _of_numbers_module("array").scalar(value, dtype)


def is_of_numbers(value: Any) -> bool:
    """Whether a value is a fraction or another number for which there is a type: core/numbers."""
    if isinstance(value, int | float | complex | str | numpy.generic | None):
        return False
    return _of_numbers_module("types").of_element(value) is not None


def _is_complex(dtype: NumpyDtype) -> bool:
    return dtype.itemsize == 4


def _small_floats(values: Any, dtype: NumpyDtype, order: Any) -> Any:
    """Floats of 8 bits, by way of float32."""
    single = (values.real if values.dtype.kind == "c" else values).astype(numpy.float32, order)
    if dtype.name == "float8_e8m0fnu":
        return _powers_of_two(single).view(dtype).view(NarrowArray)
    if dtype.name == "float8_e4m3fn":  # has no infinity: torch gives the largest number then
        single = numpy.clip(single, -448, 448, out=single)
    return single.astype(dtype, order).view(NarrowArray)


def _powers_of_two(single: Any) -> Any:
    """The exponents of numbers, rounded to even; signs go, and what is not finite is NaN."""
    bits = single.view(numpy.uint32)
    exponent = (bits >> 23) & 0xFF
    rest, half = bits & 0x7FFFFF, 0x400000
    up = (rest > half) | ((rest == half) & (exponent > 0))
    return numpy.where(exponent == 0xFF, exponent, exponent + up).astype(numpy.uint8)


def _refused(what: str, dtype: NumpyDtype) -> NotImplementedError:
    own = from_numpy_dtype(dtype)
    wider = "torch.complex64" if own.is_complex else "torch.float32"
    return NotImplementedError(
        f"{what}: {own} is for storing numbers, and this is not computed in it. Convert with "
        f".to({wider}), compute, and convert the result."
    )


class NarrowArray(numpy.ndarray[Any, Any]):
    """An array of numbers that are stored in few bits."""

    __array_priority__ = 1.0  # joined with others it stays what it is

    def astype(self, dtype: Any, order: Any = "K", *args: Any, **kwargs: Any) -> Any:
        """The values in another dtype."""
        return converted(self, numpy.dtype(dtype), order)

    def __setitem__(self, key: Any, value: Any) -> None:
        if not (isinstance(value, numpy.ndarray) and value.dtype == self.dtype):
            value = converted(numpy.asarray(value), self.dtype)
        super().__setitem__(key, value.view(numpy.ndarray))

    def view(self, *args: Any, **kwargs: Any) -> Any:
        """The same memory as another dtype, which may be a usual one."""
        made = super().view(*args, **kwargs)
        usual = type(made) is NarrowArray and made.dtype not in NARROW
        return numpy.ndarray.view(made, numpy.ndarray) if usual else made

    def fill(self, value: Any) -> None:
        """Write one value everywhere."""
        self[...] = value

    @property  # type: ignore[misc]  # read-only here: nobody assigns parts
    def real(self) -> Any:
        """The real parts, in the same memory."""
        return self._part(0)

    @property  # type: ignore[misc]  # the same
    def imag(self) -> Any:
        """The imaginary parts, in the same memory."""
        return self._part(1)

    def _part(self, number: int) -> Any:
        if not _is_complex(self.dtype):
            return self if number == 0 else numpy.zeros_like(self)
        halves = self.view(numpy.ndarray)[..., None].view(numpy.float16)
        return halves[..., number]

    def dot(self, other: Any, out: Any = None) -> Any:
        """A product of matrices, as `matmul`."""
        return numpy.matmul(self, other) if out is None else numpy.matmul(self, other, out=out)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        dtype = next(one.dtype for one in (*inputs, *(out or ())) if type(one) is NarrowArray)
        _check(ufunc.__name__, method, dtype, inputs, kwargs)
        values = [wide(one) if hasattr(one, "dtype") else one for one in inputs]
        made = numpy.asarray(getattr(ufunc, method)(*values, **kwargs))
        narrow_results = kwargs.get("dtype") is None and made.dtype.kind in "fc"
        if ufunc.__name__ == "absolute" and _is_complex(dtype):
            made, narrow_results = made.astype(numpy.float16), False
        result = converted(made, dtype) if narrow_results else made
        if not out:
            return result
        out[0][...] = result
        return out[0]

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func.__name__ not in _MOVING_NAMES:
            raise _refused(func.__name__, self.dtype)
        return _held_tree(super().__array_function__(func, types, args, kwargs))

    def _no_order(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: these numbers are not compared."""
        raise _refused("sorting", self.dtype)

    sort = argsort = partition = argpartition = argmax = argmin = searchsorted = _no_order


def _check(name: str, method: str, dtype: NumpyDtype, inputs: Any, kwargs: Any) -> None:
    """Refuse what torch refuses; sums in another dtype are sums of converted numbers."""
    if method == "reduce":
        wanted = kwargs.get("dtype")
        if name.startswith("logical") or (wanted is not None and wanted not in NARROW):
            return
    allowed = _COMPLEX_NAMES if _is_complex(dtype) else _FLOAT_NAMES
    if name in allowed and method == "__call__":
        if name != "multiply" or _is_complex(dtype):
            return
        if len({numpy.ndim(one) == 0 for one in inputs}) == 1:  # a number times a tensor is not
            return
    if name in ("isinf", "isfinite") and dtype.name == "float8_e5m2":
        return
    raise _refused(name, dtype)


def _held_tree(value: Any) -> Any:
    if isinstance(value, numpy.ndarray):
        return held(value)
    if isinstance(value, list | tuple):
        return type(value)(_held_tree(one) for one in value)
    return value
