"""Arrays and ufuncs of the stand-in for CuPy (`stand_in.py`), on NumPy's.

They meet no NumPy array (TypeError), have no `flags.writeable`, reductions take no `initial=` or
`where=`, ufuncs have the methods that CuPy's have, and nothing becomes a NumPy array but by
`get()`. Every way to the host is counted in `transfers`.
"""

from __future__ import annotations

from typing import Any

import numpy

transfers = {"to host": 0, "to device": 0}

REDUCING = {"add": "sum", "multiply": "prod"}
AT = {"add", "maximum", "minimum"}
ACCUMULATING = {"add": "cumsum", "multiply": "cumprod"}


class Flags:
    def __init__(self, flags):
        self.c_contiguous, self.f_contiguous = flags.c_contiguous, flags.f_contiguous
        self.owndata, self.forc, self.fnc = flags.owndata, flags.forc, flags.fnc

    def __getitem__(self, name):
        return getattr(self, name.lower())


def inner(value: Any) -> Any:
    """The NumPy value behind an operand; NumPy's own arrays are refused, as CuPy does."""
    if isinstance(value, ndarray):
        return value._a
    if isinstance(value, numpy.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, tuple | list):
        return type(value)(inner(one) for one in value)
    return value


def outer(value: Any, of: tuple[Any, ...] = ()) -> Any:
    if isinstance(value, numpy.ndarray | numpy.generic):
        return made(value, of)
    if isinstance(value, tuple | list):
        return (
            type(value)(outer(one, of) for one in value)
            if type(value) in (tuple, list)
            else tuple(outer(one, of) for one in value)
        )
    return value


def made(array: Any, of: tuple[Any, ...] = ()) -> ndarray:
    array = numpy.asarray(array)
    if array.base is not None:
        for one in of:  # the array itself, or a view of it
            if isinstance(one, ndarray) and one._a is array:
                return one
    result = object.__new__(ndarray)
    result._a = array
    result._owner = None
    for one in of:
        if isinstance(one, ndarray) and numpy.may_share_memory(one._a, array) and array.size:
            result._owner = one if one._owner is None else one._owner
    return result


class Device:
    def __init__(self, id: int = 0) -> None:
        self.id = id

    def synchronize(self) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


class Pointer:
    def __init__(self, array, pointer):
        self.array, self.ptr = array, pointer
        self.device_id = 0

    def __add__(self, offset):
        return Pointer(self.array, self.ptr + offset)


class ndarray:  # noqa: N801 (CuPy's name)
    """An array "on the device"."""

    __array_priority__ = 100
    _a: Any
    _owner: Any

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        self._owner = None
        dtype = numpy.dtype(dtype)
        if memptr is None:
            if strides is None:
                self._a = numpy.empty(shape, dtype, order)
            else:
                n = sum((s - 1) * t for s, t in zip(shape, strides, strict=True)) + dtype.itemsize
                self._a = numpy.ndarray(shape, dtype, numpy.empty(max(n, 0), "u1"), 0, strides)
            return
        owner = memptr.array
        root = owner if owner._owner is None else owner._owner
        flat = numpy.lib.stride_tricks.as_strided(
            root._a, (max(root._a.nbytes // root._a.itemsize, 0),), (root._a.itemsize,)
        )
        start = memptr.ptr - root.data.ptr
        self._a = numpy.ndarray(shape, dtype, flat, start, strides)
        self._owner = root

    shape = property(lambda self: self._a.shape)
    dtype = property(lambda self: self._a.dtype)
    ndim = property(lambda self: self._a.ndim)
    size = property(lambda self: self._a.size)
    strides = property(lambda self: self._a.strides)
    itemsize = property(lambda self: self._a.itemsize)
    nbytes = property(lambda self: self._a.nbytes)
    flags = property(lambda self: Flags(self._a.flags))
    base = property(lambda self: self._owner)
    T = property(lambda self: made(self._a.T, (self,)))
    mT = property(lambda self: made(self._a.mT, (self,)))  # noqa: N815 (CuPy's name)
    device = property(lambda self: Device(0))
    data = property(lambda self: Pointer(self, self._a.__array_interface__["data"][0]))

    @property
    def real(self):
        return made(self._a.real, (self,))

    @real.setter
    def real(self, value):
        self._a.real = inner(value)

    @property
    def imag(self):
        return made(self._a.imag, (self,))

    @imag.setter
    def imag(self, value):
        self._a.imag = inner(value)

    # to the host
    def get(self, stream=None, order="C", out=None, blocking=True):
        transfers["to host"] += 1
        if out is not None:
            out[...] = self._a
            return out
        return numpy.array(self._a, order="C")

    def set(self, array, stream=None):
        transfers["to device"] += 1
        self._a[...] = array

    def item(self, *args):
        transfers["to host"] += 1
        return self._a.item(*args)

    def tolist(self):
        transfers["to host"] += 1
        return self._a.tolist()

    def __bool__(self):
        transfers["to host"] += 1
        return bool(self._a)

    def __int__(self):
        transfers["to host"] += 1
        return int(self._a)

    def __float__(self):
        transfers["to host"] += 1
        return float(self._a)

    def __complex__(self):
        transfers["to host"] += 1
        return complex(self._a)

    def __array__(self, dtype=None):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __len__(self):
        return len(self._a)

    def __iter__(self):
        return (self[i] for i in range(len(self._a)))

    def __repr__(self):
        return repr(self._a)

    def __getitem__(self, key):
        return made(self._a[_key(key)], (self,))

    def __setitem__(self, key, value):
        if isinstance(value, numpy.ndarray) and value.ndim:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")
        self._a[_key(key)] = value._a if isinstance(value, ndarray) else value

    # methods with CuPy's parameters
    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        if casting is not None or subok is not None:
            raise TypeError("casting is not supported yet")
        if self.dtype.kind == "c" and numpy.dtype(dtype).kind not in "cb":
            return made(self._a.real.astype(dtype, order))
        result = self._a.astype(dtype, order, copy=copy)
        return self if result is self._a else made(result)

    def copy(self, order="C"):
        return made(self._a.copy(order))

    def view(self, dtype=None, type=None):
        return made(self._a.view(dtype), (self,))

    def reshape(self, *shape, order="C"):
        return made(self._a.reshape(*shape, order=order), (self,))

    def ravel(self, order="C"):
        return made(self._a.ravel(order), (self,))

    def flatten(self, order="C"):
        return made(self._a.flatten(order))

    def transpose(self, *axes):
        return made(self._a.transpose(*axes), (self,))

    def swapaxes(self, a, b):
        return made(self._a.swapaxes(a, b), (self,))

    def squeeze(self, axis=None):
        return made(self._a.squeeze(axis), (self,))

    def diagonal(self, offset=0, axis1=0, axis2=1):
        view = self._a.diagonal(offset, axis1, axis2)
        view.flags.writeable = True
        return made(view, (self,))

    def fill(self, value):
        if isinstance(value, ndarray):
            value = value._a
        self._a.fill(value)

    def take(self, indices, axis=None, out=None):
        return made(self._a.take(inner(indices), axis, inner(out), mode="wrap"))

    def repeat(self, repeats, axis=None):
        return made(self._a.repeat(inner(repeats), axis))

    def nonzero(self):
        return tuple(made(one) for one in self._a.nonzero())

    def dot(self, b, out=None):
        return made(self._a.dot(inner(b)))

    def sort(self, axis=-1, kind=None):
        self._a.sort(axis)

    def argsort(self, axis=-1, kind=None):
        return made(self._a.argsort(axis, kind="stable"))

    def conj(self):
        return made(self._a.conj(), (self,)) if self.dtype.kind == "c" else self

    conjugate = conj

    def clip(self, min=None, max=None, out=None):
        return made(self._a.clip(inner(min), inner(max), out=inner(out)))

    def trace(self, offset=0, axis1=0, axis2=1, dtype=None, out=None):
        return made(self._a.trace(offset, axis1, axis2, dtype))

    def round(self, decimals=0, out=None):
        return made(self._a.round(decimals))


def _key(key):
    if isinstance(key, ndarray):
        return key._a
    if isinstance(key, tuple):
        return tuple(_key(one) for one in key)
    return key


def _reduction(name, dtyped):
    if dtyped:

        def reduce(self, axis=None, dtype=None, out=None, keepdims=False):
            if out is not None:
                getattr(self._a, name)(axis, dtype, out._a, keepdims)
                return out
            return made(getattr(self._a, name)(axis, dtype, None, keepdims))
    else:

        def reduce(self, axis=None, out=None, keepdims=False):
            if out is not None:
                getattr(self._a, name)(axis, out._a, keepdims)
                return out
            return made(getattr(numpy, name)(self._a, axis=axis, keepdims=keepdims))

    return reduce


for _name in ("sum", "prod", "mean"):
    setattr(ndarray, _name, _reduction(_name, True))
for _name in ("max", "min", "any", "all"):
    setattr(ndarray, _name, _reduction(_name, False))


def _variance(name):
    def reduce(self, axis=None, dtype=None, out=None, ddof=0, keepdims=False):
        return made(getattr(self._a, name)(axis, dtype, None, ddof, keepdims))

    return reduce


ndarray.var, ndarray.std = _variance("var"), _variance("std")
for _name in ("cumsum", "cumprod"):
    setattr(
        ndarray,
        _name,
        lambda self, axis=None, dtype=None, out=None, name=_name: made(
            getattr(self._a, name)(axis, dtype)
        ),
    )


def _arg(name):
    def reduce(self, axis=None, dtype=None, out=None, keepdims=False):
        return made(getattr(self._a, name)(axis, keepdims=keepdims))

    return reduce


ndarray.argmax, ndarray.argmin = _arg("argmax"), _arg("argmin")


class ufunc:  # noqa: N801 (CuPy's name)
    """CuPy's ufunc: the call, and few of the methods."""

    def __init__(self, own):
        self._own = own
        self.__name__ = own.__name__
        self.nin, self.nout, self.types = own.nin, own.nout, own.types

    def __call__(self, *args, out=None, dtype=None, where=None, casting=None):
        given = [inner(one) for one in args]
        if len(given) > self._own.nin:
            out, given = args[self._own.nin], given[: self._own.nin]
        options = {} if dtype is None else {"dtype": dtype}
        if where is not None:
            options["where"] = inner(where)
        if out is not None:
            self._own(*given, out=inner(out), casting="unsafe", **options)
            return out
        return outer(self._own(*given, **options))

    def reduce(self, array, axis=0, dtype=None, out=None, keepdims=False):
        if self.__name__ not in REDUCING:
            raise NotImplementedError(f"`cupy_{self.__name__}.reduce` is not supported yet")
        return getattr(array, REDUCING[self.__name__])(axis, dtype, out, keepdims)

    def accumulate(self, array, axis=0, dtype=None, out=None):
        if self.__name__ not in ACCUMULATING:
            raise NotImplementedError(f"`cupy_{self.__name__}.accumulate` is not supported yet")
        return getattr(array, ACCUMULATING[self.__name__])(axis, dtype)

    def at(self, a, indices, b=None):
        if self.__name__ not in AT:
            raise NotImplementedError(f"`cupy_{self.__name__}.at` is not supported yet")
        if a.dtype.char not in "ilqefdILQ":
            raise TypeError(f"cupy.{self.__name__}.at only supports real numbers as data type")
        self._own.at(a._a, _key(indices), inner(b))

    def reduceat(self, array, indices, axis=0, dtype=None, out=None):
        return made(self._own.reduceat(array._a, inner(indices), axis, dtype))

    def outer(self, a, b):
        return made(self._own.outer(inner(a), inner(b)))
