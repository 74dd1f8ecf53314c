"""A stand-in for CuPy on NumPy: the same names, as strict as CuPy where NumPy is not.

Arrays of this kind meet no NumPy array (TypeError), have no `flags.writeable`, reductions take no
`initial=` or `where=`, ufuncs have the methods that CuPy's have, and nothing becomes a NumPy array
but by `get()`. Every way to the host is counted in `transfers`. What CuPy does was read off CuPy
14.2 on a device. Kernels are not there unless `with_kernels` is asked for them: `kernels` runs
CUDA C on the host, `cublas` is cuBLAS's part of products.
"""

from __future__ import annotations

import builtins
import contextlib
import types
from typing import Any

import numpy

from tests.cuda.stand_in.devices import Device, cuda, current, memory_of, pool

transfers = {"to host": 0, "to device": 0}

_MISSING = """
    block char core errstate emath geterr insert ma matvec memmap ndenumerate nditer object_ seterr
    spacing str_ unstack vecdot vecmat void einsum_path nanquantile nanpercentile geomspace
    isnat longdouble frompyfunc
"""
MISSING = frozenset(_MISSING.split())
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
        if value._on != current.device:
            raise ValueError("the array is on another device than the current one")
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
    _place(result)
    return result


def _place(array: ndarray) -> None:
    """A view is where its owner is; what owns its memory takes it on the current device."""
    owner = array._owner
    array._on = current.device if owner is None else owner._on
    array._memory = memory_of(array._a.nbytes) if owner is None and array._a.size else None
    array._block = Block(array) if owner is None else owner._block


class Block:
    """The memory of an array, which its views hold as well."""

    def __init__(self, whole):
        self.ptr = whole._a.__array_interface__["data"][0]
        self.size = 0 if whole._memory is None else whole._memory.mem.size


class Pointer:
    def __init__(self, array, pointer):
        self.array, self.ptr = array, pointer
        self.device_id = array._on

    @property
    def mem(self):
        return self.array._block

    def __add__(self, offset):
        return Pointer(self.array, self.ptr + offset)


class ndarray:  # noqa: N801 (CuPy's name)
    """An array "on the device"."""

    __array_priority__ = 100
    _a: Any
    _owner: Any
    _on: int
    _memory: Any
    _block: Any

    def __init__(self, shape, dtype=float, memptr=None, strides=None, order="C"):
        self._owner = None
        dtype = numpy.dtype(dtype)
        if memptr is None:
            if strides is None:
                self._a = numpy.empty(shape, dtype, order)
            else:
                n = sum((s - 1) * t for s, t in zip(shape, strides, strict=True)) + dtype.itemsize
                self._a = numpy.ndarray(shape, dtype, numpy.empty(max(n, 0), "u1"), 0, strides)
            _place(self)
            return
        owner = memptr.array
        root = owner if owner._owner is None else owner._owner
        flat = numpy.lib.stride_tricks.as_strided(
            root._a, (max(root._a.nbytes // root._a.itemsize, 0),), (root._a.itemsize,)
        )
        start = memptr.ptr - root.data.ptr
        self._a = numpy.ndarray(shape, dtype, flat, start, strides)
        self._owner = root
        _place(self)

    shape = property(lambda self: self._a.shape)
    dtype = property(lambda self: self._a.dtype)
    ndim = property(lambda self: self._a.ndim)
    size = property(lambda self: self._a.size)
    strides = property(lambda self: self._a.strides)
    itemsize = property(lambda self: self._a.itemsize)
    nbytes = property(lambda self: self._a.nbytes)
    flags = property(lambda self: Flags(self._a.flags))
    _c_contiguous = property(lambda self: self._a.flags.c_contiguous)
    base = property(lambda self: self._owner)
    T = property(lambda self: made(self._a.T, (self,)))
    mT = property(lambda self: made(self._a.mT, (self,)))  # noqa: N815 (CuPy's name)
    device = property(lambda self: Device(self._on))
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

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        if "out" in kwargs:
            kwargs["out"] = kwargs["out"][0]
        own = getattr(module, ufunc.__name__, None)
        if own is None:
            return NotImplemented
        return (own if method == "__call__" else getattr(own, method))(*inputs, **kwargs)

    def __array_function__(self, func, types, args, kwargs):
        place = module
        for part in func.__module__.split(".")[1:]:
            place = getattr(place, part, None)
        own = getattr(place, func.__name__, None) if place is not None else None
        return NotImplemented if own is None else own(*args, **kwargs)

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
        assert not isinstance(dtype, builtins.type) or not issubclass(dtype, numpy.ndarray), dtype
        return made(self._a.view(dtype or self._a.dtype), (self,))  # None is float64 to NumPy

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


def _binary(name, reflected=False):
    def operate(self, other):
        own = getattr(module, name)
        if not isinstance(other, ndarray | int | float | complex | numpy.generic | numpy.ndarray):
            return NotImplemented
        return own(other, self) if reflected else own(self, other)

    return operate


def _in_place(name):
    def operate(self, other):
        return getattr(module, name)(self, other, self)

    return operate


_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "pow": "power",
    "floordiv": "floor_divide", "mod": "remainder", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift", "matmul": "matmul",
}  # fmt: skip
for _short, _long in _OPERATORS.items():
    setattr(ndarray, f"__{_short}__", _binary(_long))
    setattr(ndarray, f"__r{_short}__", _binary(_long, reflected=True))
    setattr(ndarray, f"__i{_short}__", _in_place(_long))
for _short, _long in {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
                      "eq": "equal", "ne": "not_equal"}.items():  # fmt: skip
    setattr(ndarray, f"__{_short}__", _binary(_long))
for _short, _long in {"neg": "negative", "invert": "invert", "abs": "absolute",
                      "pos": "positive"}.items():  # fmt: skip
    setattr(ndarray, f"__{_short}__", lambda self, name=_long: getattr(module, name)(self))
ndarray.__hash__ = None


_FROM_NUMPY = (type, numpy.dtype, float, int, type(None))


class Module(types.ModuleType):
    """`cupy`, or one of its parts: NumPy's functions on these arrays."""

    def __init__(self, name: str, numpy_part: Any) -> None:
        super().__init__(name)
        self._part = numpy_part

    def __getattr__(self, name: str) -> Any:
        if name in MISSING or name.startswith("_"):
            raise AttributeError(f"module 'cupy' has no attribute {name!r}")
        found = getattr(self._part, name)
        if isinstance(found, numpy.ufunc):
            own: Any = ufunc(found)
        elif isinstance(found, types.ModuleType):
            own = Module(f"{self.__name__}.{name}", found)
        elif isinstance(found, _FROM_NUMPY):
            own = found
        else:
            own = _function(found)
        setattr(self, name, own)
        return own


def _function(found):
    def call(*args, **kwargs):
        if kwargs.get("where") is not None and found.__name__ != "copyto":
            raise TypeError("unexpected keyword argument 'where'")
        if "initial" in kwargs:
            raise TypeError("unexpected keyword argument 'initial'")
        given = [inner(one) for one in args]
        named = {name: inner(one) for name, one in kwargs.items()}
        result = found(*given, **named)
        if kwargs.get("out") is not None:
            return kwargs["out"]
        return outer(result, args)

    call.__name__ = getattr(found, "__name__", "call")
    return call


module: Any = Module("cupy", numpy)
module.ndarray, module.ufunc = ndarray, ufunc


def asarray(a, dtype=None, order=None, blocking=False, copy=None):
    if isinstance(a, ndarray):
        return a if dtype is None or a.dtype == dtype else a.astype(dtype)
    transfers["to device"] += 1
    if isinstance(a, list | tuple):
        a = [one._a if isinstance(one, ndarray) else one for one in a]
    return made(numpy.array(a, dtype, order=order or "C"))


def array(obj, dtype=None, copy=True, order="K", ndmin=0):
    if isinstance(obj, ndarray):
        return made(numpy.array(obj._a, dtype, copy=True, order=order, ndmin=ndmin))
    return asarray(obj, dtype, "C" if order == "K" else order)


def ascontiguousarray(a, dtype=None):
    if isinstance(a, ndarray):
        result = numpy.ascontiguousarray(a._a, dtype)
        return a if result is a._a else made(result, (a,))
    return asarray(a, dtype)


def copyto(dst, src, casting="same_kind", where=None):
    if isinstance(src, numpy.ndarray) and src.ndim:
        raise TypeError("Unsupported type numpy.ndarray")
    src = src._a if isinstance(src, ndarray) else src
    numpy.copyto(dst._a, src, casting, True if where is None else inner(where))


def putmask(a, mask, values):
    numpy.putmask(a._a, inner(mask), inner(values))


def asnumpy(a, stream=None, order="C", out=None, blocking=True):
    return a.get() if isinstance(a, ndarray) else numpy.asarray(a)


def may_share_memory(a, b, max_work=None):
    both = isinstance(a, ndarray) and isinstance(b, ndarray)
    return both and numpy.may_share_memory(a._a, b._a)


def _as_strided(x, shape=None, strides=None):
    return made(numpy.lib.stride_tricks.as_strided(x._a, shape, strides), (x,))


def _matmul(a, b, out=None):
    result = numpy.matmul(inner(a), inner(b))
    if out is not None:
        out._a[...] = result
        return out
    return made(result)


for _own in (asarray, array, ascontiguousarray, copyto, putmask, asnumpy, may_share_memory):
    setattr(module, _own.__name__, _own)
module.asanyarray = asarray
module.matmul = _matmul
module.shares_memory = may_share_memory
module.lib = types.SimpleNamespace(stride_tricks=types.SimpleNamespace(as_strided=_as_strided))
module.result_type = lambda *given: numpy.result_type(
    *[one.dtype if isinstance(one, ndarray) else one for one in given]
)
for _name in ("dtype", "finfo", "iinfo", "promote_types", "can_cast", "broadcast_shapes"):
    setattr(module, _name, getattr(numpy, _name))
module.broadcast_shapes = numpy.broadcast_shapes


module.cuda = cuda
module.get_default_memory_pool = lambda: pool


def __getattr__(name: str) -> Any:
    """What is beside CuPy, which is made of the names here."""
    if name in ("MODULES", "cupyx"):
        from tests.cuda.stand_in import extras

        return getattr(extras, name)
    raise AttributeError(name)


@contextlib.contextmanager
def with_kernels() -> Any:
    """Inside, kernels are there: CUDA C, run on the host, and cuBLAS."""
    from tests.cuda.stand_in.kernels import RawKernel, RawModule

    module.RawKernel, module.RawModule = RawKernel, RawModule
    try:
        yield
    finally:
        del module.RawKernel, module.RawModule
