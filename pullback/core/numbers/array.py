"""An array of numbers of one type; NumPy keeps them as objects.

Whatever NumPy is asked to do with one comes by here: ufuncs go to the table of the type, functions
that move elements work as they are, and others are refused rather than left to chance.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import inf
from typing import Any

import numpy

from pullback.core import arrays
from pullback.core.numbers.floats import RoundedError
from pullback.core.numbers.functions import COMPARISONS, TRUTHS, torch_name, truth, ufunc_of
from pullback.core.numbers.types import (
    MixedNumbersError,
    NumberDtype,
    NumberType,
    meant,
    no_meaning,
)

__all__ = [
    "SPACE",
    "NumberArray",
    "converted",
    "filled",
    "held",
    "joined",
    "numbers_among",
    "operand",
    "scalar",
    "taken",
]

Array = Any


class NumberArray(numpy.ndarray[Any, Any]):
    """An array whose elements are numbers of one type."""

    __array_priority__ = 2.0
    numbers: NumberType

    def __array_finalize__(self, of: Any) -> None:
        if of is not None:
            self.numbers = getattr(of, "numbers", None)  # type: ignore[assignment]  # set by `held`

    @property
    def dtype(self) -> Any:  # what it stands for: see NumberDtype
        """What says that these are numbers, and of which type."""
        return self.numbers.numpy

    # Elements ------------------------------------------------------------------------------

    def __setitem__(self, key: Any, value: Any) -> None:
        objects, where = plain(self), plain_tree(key)
        made = operand(self.numbers, value)
        if made.ndim == 0 and not isinstance(objects[where], numpy.ndarray):
            made = made.item()  # else the array itself were the element
        objects[where] = made

    def __getitem__(self, key: Any) -> Any:
        made = super().__getitem__(plain_tree(key))
        return made if isinstance(made, numpy.ndarray) else held(single(made), self.numbers)

    def fill(self, value: Any) -> None:
        """Write one number everywhere."""
        self[...] = value

    def astype(self, dtype: Any, order: Any = "K", *args: Any, **kwargs: Any) -> Any:
        """The numbers in another dtype, which is not that of floats: those are for `.to()`."""
        if meant(dtype) is None and numpy.dtype(dtype).kind in "fcVW":
            raise no_meaning("", self.numbers, f"it is computed in {numpy.dtype(dtype)}")
        return converted(self, dtype, order)

    def copy(self, order: Any = "C") -> Any:
        """Another array with the same numbers."""
        return held(plain(self).copy(order), self.numbers)

    def view(self, *args: Any, **kwargs: Any) -> Any:
        """The same memory; objects cannot be seen as anything else."""
        if args and args[0] is numpy.ndarray:
            return super().view(numpy.ndarray)
        if not args and not kwargs:
            return super().view()
        if args and meant(args[0]) is self.numbers:
            return super().view()
        raise no_meaning("view", self.numbers, "its elements are objects, and have no bits to show")

    @property  # type: ignore[misc]  # read-only here: nobody assigns parts
    def real(self) -> Any:
        """The real parts."""
        return _parts(self, "real") if self.numbers.is_complex else self

    @property  # type: ignore[misc]  # the same
    def imag(self) -> Any:
        """The imaginary parts."""
        return _parts(self, "imag") if self.numbers.is_complex else self * 0

    # Functions -----------------------------------------------------------------------------

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        numbers = numbers_among((*inputs, *(out or ())))
        name = ufunc.__name__
        if name == "vecdot" and not kwargs and out is None and not numbers.is_complex:
            return _products_along(*inputs)
        function = ufunc_of(numbers, ufunc)
        if function is None:
            raise no_meaning(torch_name(name), numbers)
        wanted = meant(kwargs.pop("dtype", None))
        numbers = wanted or numbers
        for option in ("casting", "subok", "order"):
            kwargs.pop(option, None)
        if "initial" in kwargs:
            kwargs["initial"] = numbers.element(kwargs["initial"])
        if isinstance(kwargs.get("where"), NumberArray):
            raise no_meaning(name, numbers, "where= takes truth values")
        if method == "at":
            target = plain(inputs[0])
            rest = [operand(numbers, one) for one in inputs[2:]]
            function.at(target, plain_tree(inputs[1]), *rest)
            return None
        given = list(inputs)
        count = 1 if method in ("reduce", "accumulate", "reduceat") else len(given)
        given[:count] = [operand(numbers, one, name) for one in given[:count]]
        if out is not None and "where" in kwargs:
            kwargs["out"] = tuple(plain(one) for one in out)
        if method == "reduce":
            made = _reduced(function, *given, **kwargs)
        else:
            made = getattr(function, method)(*given, **kwargs)
        return _results(numbers, name, made, out)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from pullback.core.numbers.numpy_functions import call

        return call(func, args, kwargs)

    def sort(self, axis: Any = -1, kind: Any = None, *args: Any, **options: Any) -> None:
        """Sort in place."""
        from pullback.core.numbers.numpy_functions import check_order

        check_order("sort", self.numbers, [self])
        plain(self).sort(axis, "stable")

    def __bool__(self) -> bool:
        if self.size != 1:
            raise ValueError("The truth of several numbers is ambiguous.")
        return truth(self.numbers, self.item())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _loaded, (self.numbers.cls, self.shape, plain(self).ravel().tolist())


def _by_function(name: str) -> Callable[..., Any]:
    """A method that is NumPy's function, which comes by the array's class again."""
    function = getattr(numpy, name)

    def method(self: NumberArray, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    method.__name__, method.__doc__ = name, f"As `numpy.{name}`."
    return method


_METHODS = """
    argmax argmin argsort clip cumprod cumsum dot mean nonzero ptp round searchsorted std trace var
"""
for _name in _METHODS.split():
    setattr(NumberArray, _name, _by_function(_name))


def _loaded(cls: type, shape: tuple[int, ...], elements: list[Any]) -> Array:
    """From a pickle."""
    from pullback.core.numbers.types import of_class

    numbers = of_class(cls)
    if numbers is None:
        raise TypeError(
            f"The pickle has numbers of type {cls.__name__}, which is not registered here. Call "
            "torch.autograd.numbers.register_numbers first."
        )
    made = numpy.empty(len(elements), object)
    for place, one in enumerate(elements):
        made[place] = one
    return taken(made, numbers).reshape(shape)


# From and to arrays -------------------------------------------------------------------------------


def plain(array: Array) -> Array:
    return numpy.ndarray.view(array, numpy.ndarray) if type(array) is NumberArray else array


def plain_tree(value: Any) -> Any:
    if type(value) is NumberArray:
        return plain(value)
    if type(value) in (list, tuple):
        return type(value)([plain_tree(one) for one in value])
    return value


def single(element: Any) -> Array:
    """One object as an array of no dimensions, whatever it may look like to NumPy."""
    made = numpy.empty((), object)
    made[()] = element
    return made


def scalar(value: Any, dtype: Any) -> NumberArray:
    """A Python number as an array of no dimensions."""
    numbers = meant(dtype)
    assert numbers is not None
    return held(single(numbers.element(value)), numbers)


def held(array: Array, numbers: NumberType) -> NumberArray:
    """An array of objects as one of numbers, on the same memory; each must be one already."""
    made: NumberArray = numpy.ndarray.view(array, NumberArray)
    made.numbers = numbers
    return made


def filled(array: Array, numbers: NumberType) -> NumberArray:
    """The same with elements that NumPy has put there: its ints become numbers, nothing a zero."""
    if not array.flags.writeable:
        array = array.copy()
    for place, one in zip(numpy.ndindex(array.shape), array.flat, strict=True):
        if not numbers.is_own(one):
            array[place] = numbers.element(0 if one is None else one)
    return held(array, numbers)


def taken(array: Array, numbers: NumberType, name: str = "") -> NumberArray:
    """An array of objects as one of numbers, after a look at each."""
    own = numbers.cls
    refuse = numbers.functions.get("refuse")
    others = {type(one) for one in array.flat} - {own}
    if all(issubclass(one, own) for one in others):
        for one in () if refuse is None else array.flat:
            _checked(numbers, one, name)
        return held(array, numbers)  # on the same memory: it may be a view
    made = numpy.empty(array.shape, object)
    if 0 not in array.strides:
        made = numpy.empty_like(array, object, subok=False)
    for place, one in zip(numpy.ndindex(array.shape), array.flat, strict=True):
        made[place] = _checked(numbers, one, name)
    return held(made, numbers)


def _checked(numbers: NumberType, value: Any, name: str) -> Any:
    if name and isinstance(value, float):
        raise no_meaning(name, numbers, "it is computed in floating point")
    if value is None:
        raise no_meaning(name, numbers, "it has left elements empty")
    if numbers.complex not in (None, numbers) and isinstance(value, numbers.complex.cls):
        raise no_meaning(
            name,
            numbers,
            f"a result is the complex number {value}; convert to {numbers.complex.name} first",
        )
    made = numbers.element(value)
    refuse = numbers.functions.get("refuse")
    why = "" if refuse is None else refuse(made)
    if why:
        raise no_meaning(name, numbers, f"of {made} {why}")
    return made


def _products_along(a: Any, b: Any) -> Any:
    """`vecdot` of real numbers: NumPy's calls `conjugate`, a method that they may not have."""
    return numpy.matmul(a[..., None, :], b[..., :, None])[..., 0, 0]


def operand(numbers: NumberType, value: Any, name: str = "") -> Array:
    """An operand as an array of objects of one type."""
    if type(value) is NumberArray:
        if value.numbers is numbers:
            return plain(value)
        return plain(converted(value, numbers.numpy))
    if name in ("power", "float_power") and _is_whole(value):
        return numpy.asarray(value).astype(object)  # a power of ints is a product
    if name in COMPARISONS and isinstance(value, float):
        return single(_bound(numbers, value))
    if isinstance(value, numpy.ndarray | list | tuple):
        made = value if isinstance(value, numpy.ndarray) else numpy.asarray(value)
        return plain(taken(made.astype(object), numbers))
    return single(numbers.element(value))


def _bound(numbers: NumberType, value: float) -> Any:
    """A float that numbers are compared with: no digits of a result come from it."""
    if value in (inf, -inf) and "inf" not in numbers.functions:
        return value
    try:
        return numbers.element(value)
    except RoundedError:
        return numbers.exactly(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) or getattr(getattr(value, "dtype", None), "kind", "O") in "biu"


def converted(array: Array, dtype: Any, order: Any = "K") -> Array:
    """The values of any array in any dtype, one of the two being of numbers."""
    numbers = meant(dtype)
    if type(array) is not NumberArray:
        assert numbers is not None
        return _from_numpy(numpy.asarray(array), numbers, order)
    if numbers is array.numbers:
        return array.copy(order)
    objects = plain(array)
    if numbers is None:
        if array.numbers.is_complex and dtype.kind not in "cb":
            objects = plain(array.real)
        return _to_numpy(objects, array.numbers, numpy.dtype(dtype), order)
    if array.numbers.is_complex and not numbers.is_complex:
        return converted(array.real, dtype, order)
    return taken(objects.copy(order), numbers, "the conversion")


def _from_numpy(array: Array, numbers: NumberType, order: Any) -> NumberArray:
    if array.dtype.kind == "O":
        return taken(array.copy(order), numbers)
    if array.dtype.kind in "cW" and not numbers.is_complex:
        array = array.real
    objects = array.astype(object, order)
    if array.dtype.kind == "V":
        objects = array.astype(numpy.float32).astype(object, order)
    if array.dtype.kind in "fV":
        function = numpy.frompyfunc(numbers.exactly, 1, 1)
        return held(numpy.asarray(function(objects), object), numbers)
    return taken(objects, numbers)


_PYTHON: dict[str, Callable[[Any], Any]] = {"i": int, "u": int, "f": float, "c": complex,
                                            "V": float}  # fmt: skip


def _to_numpy(objects: Array, numbers: NumberType, dtype: Any, order: Any) -> Array:
    """RoundedError to the nearest number of an ordinary dtype."""
    if dtype.kind == "b":
        made = numpy.frompyfunc(lambda x: truth(numbers, x), 1, 1)(objects)
        return numpy.asarray(made).astype(dtype, order)
    python = numbers.functions.get(_PYTHON[dtype.kind].__name__) or _PYTHON[dtype.kind]
    try:
        made = numpy.frompyfunc(python, 1, 1)(objects)
    except TypeError as error:
        raise no_meaning(f"the conversion to {dtype}", numbers, str(error)) from None
    return numpy.asarray(made).astype(dtype, order)


def _parts(array: NumberArray, which: str) -> NumberArray:
    made = numpy.frompyfunc(lambda z: getattr(z, which), 1, 1)(plain(array))
    return taken(numpy.asarray(made, object), array.numbers.real)


# Results ------------------------------------------------------------------------------------------


def numbers_among(values: Any) -> NumberType:
    """The one type of all arrays of numbers; complex if one of them is. TypeError for several."""
    found: NumberType | None = None
    for one in flat(values):
        if type(one) is not NumberArray or one.numbers is found:
            continue
        found = one.numbers if found is None else joined(found, one.numbers)
    assert found is not None
    return found


def joined(a: NumberType, b: NumberType) -> NumberType:
    """The type that two meet in: fractions become all others."""
    if a is b or a.complex is b or a in b.takes or a.cls is Fraction:
        return b
    if b.complex is a or b in a.takes or b.cls is Fraction:
        return a
    raise MixedNumbersError(
        f"Numbers of type {a.name} and {b.name} do not mix; convert one of them, "
        f"for example with .to({a.name})."
    )


def flat(values: Any) -> Any:
    for one in values:
        if type(one) in (list, tuple):
            yield from flat(one)
        else:
            yield one


def _reduced(function: Any, array: Array, axis: Any = 0, *args: Any, **kwargs: Any) -> Any:
    """Along one dimension after another: NumPy does not know that the order is all the same."""
    dims = tuple(range(array.ndim)) if axis is None else axis
    if type(dims) is not tuple or len(dims) < 2:
        one = dims if type(dims) is not tuple else dims[0] if dims else ()
        return function.reduce(array, one, *args, **kwargs)
    keeps = kwargs.pop("keepdims", False)
    for dim in sorted((dim % array.ndim for dim in dims), reverse=True):
        array = numpy.asarray(function.reduce(array, dim, *args, keepdims=keeps, **kwargs), object)
    return array


def _results(numbers: NumberType, name: str, made: Any, out: Any) -> Any:
    """What a ufunc has made, each as an array, or written to `out`."""
    several = made if type(made) is tuple else (made,)
    if name in TRUTHS:
        results = [numpy.asarray(one).astype(bool) for one in several]
    else:
        own = numbers.real if name == "absolute" else numbers
        results = [taken(_objects(one), own, name) for one in several]
    if out is not None:
        for target, one in zip(out, results, strict=True):
            target[...] = one
        return out[0] if len(out) == 1 else out
    return results[0] if len(results) == 1 else tuple(results)


def _objects(made: Any) -> Array:
    return made if isinstance(made, numpy.ndarray) else single(made)


# The namespace ------------------------------------------------------------------------------------


class _Space:
    """NumPy under another name: kernels that ask `xp is numpy` have other numbers in mind."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(numpy, name)
        if name in _CREATING:
            return _creating(found)
        return found

    def of_numbers(self, name: str) -> Callable[[Any], Any]:
        """A function of torch's that NumPy does not have, from the table of an array's type."""

        def compute(x: Any) -> Any:
            function = x.numbers.function(name)
            if function is None:
                raise no_meaning(name, x.numbers)
            made = numpy.frompyfunc(function, 1, 1)(plain(x))
            return taken(_objects(made), x.numbers, name)

        return compute

    def dtype(self, value: Any) -> Any:
        """A dtype as it is, where that is of numbers."""
        return value if type(value) is NumberDtype else numpy.dtype(value)


_CREATING = frozenset(
    [
        "arange",
        "array",
        "asanyarray",
        "asarray",
        "empty",
        "eye",
        "full",
        "identity",
        "ones",
        "zeros",
    ]
)


def _creating(function: Any) -> Callable[..., Any]:
    """A function that makes arrays: of numbers where the dtype says so."""

    def create(*args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) is NumberArray:
            return args[0].copy() if function is numpy.array else args[0]
        made = function(*args, **kwargs)
        numbers = meant(made.dtype) if type(made) is numpy.ndarray else None
        return made if numbers is None else filled(made, numbers)

    return create


SPACE: Any = _Space()
arrays.NAMESPACES[NumberArray] = SPACE
assert COMPARISONS <= TRUTHS
