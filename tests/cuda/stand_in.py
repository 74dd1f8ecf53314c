"""A stand-in for CuPy on NumPy: the same names, as strict as CuPy where NumPy is not.

Its arrays are in `stand_in_arrays.py`. What CuPy does was read off CuPy 14.2 on a device; kernels
(`RawKernel`, `ElementwiseKernel`) are not there.
"""

from __future__ import annotations

import types
from typing import Any

import numpy

from tests.cuda.stand_in_arrays import Device, inner, made, ndarray, outer, transfers, ufunc

_MISSING = """
    block char core errstate emath geterr insert ma matvec memmap ndenumerate nditer object_ seterr
    spacing str_ unstack vecdot vecmat void einsum_path nanquantile nanpercentile geomspace
    isnat longdouble frompyfunc
"""
MISSING = frozenset(_MISSING.split())


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


# NumPy, called with an array of the device, hands over.
def _array_ufunc(self, ufunc, method, *inputs, **kwargs):
    if "out" in kwargs:
        kwargs["out"] = kwargs["out"][0]
    own = getattr(module, ufunc.__name__, None)
    if own is None:
        return NotImplemented
    return (own if method == "__call__" else getattr(own, method))(*inputs, **kwargs)


def _array_function(self, func, types, args, kwargs):
    place = module
    for part in func.__module__.split(".")[1:]:
        place = getattr(place, part, None)
    own = getattr(place, func.__name__, None) if place is not None else None
    return NotImplemented if own is None else own(*args, **kwargs)


ndarray.__array_ufunc__, ndarray.__array_function__ = _array_ufunc, _array_function


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


class _Philox:
    def __init__(self, seed):
        self.own = numpy.random.default_rng(seed)


class _Generator:
    """CuPy's generators draw on the device."""

    def __init__(self, bits):
        self.own = bits.own

    def random(self, size=None, dtype=numpy.float64):
        return made(1 - self.own.random(size, dtype))

    def standard_normal(self, size=None, dtype=numpy.float64):
        return made(self.own.standard_normal(size, dtype))


module.random = types.SimpleNamespace(Generator=_Generator, Philox4x3210=_Philox)


class _Runtime:
    @staticmethod
    def getDeviceCount():  # noqa: N802 (CuPy's name)
        return 1


module.cuda = types.SimpleNamespace(
    runtime=_Runtime, Device=Device, is_available=lambda: True,
)  # fmt: skip


# cupyx -------------------------------------------------------------------------------------------

_SPECIAL = """
    beta betainc betaln digamma entr erf erfc erfcinv erfcx erfinv exp1 expi expit expm1 expn gamma
    gammainc gammaincc gammaln i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e log_ndtr loggamma logit ndtr
    ndtri polygamma psi rgamma sinc spherical_yn xlog1py xlogy y0 y1 zeta
"""
SPECIAL = frozenset(_SPECIAL.split())


class _Special(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        import scipy.special

        if name not in SPECIAL:
            raise AttributeError(f"module 'cupyx.scipy.special' has no attribute {name!r}")
        found = getattr(scipy.special, name)
        return ufunc(found) if isinstance(found, numpy.ufunc) else _function(found)


def _scatter(name):
    def scatter(a, slices, value):
        getattr(module, name).at(a, slices, value)

    return scatter


def _lu_factor(a, overwrite_a=False, check_finite=True):
    import scipy.linalg

    lu, pivots = scipy.linalg.lu_factor(a._a)
    return made(lu), made(pivots)


special = _Special("cupyx.scipy.special")
cupyx = types.SimpleNamespace(
    scatter_add=_scatter("add"),
    scatter_max=_scatter("maximum"),
    scatter_min=_scatter("minimum"),
    rsqrt=lambda x: made(1 / numpy.sqrt(x._a)),
    scipy=types.SimpleNamespace(
        special=special, linalg=types.SimpleNamespace(lu_factor=_lu_factor)
    ),
)

MODULES: Any = {
    "cupyx": cupyx,
    "cupyx.scipy": cupyx.scipy,
    "cupyx.scipy.linalg": cupyx.scipy.linalg,
    "cupyx.scipy.special": special,
}
