"""Dtypes as objects: one singleton for each, what it can hold, and the default dtype.

Its own file because everything names dtypes, while only `promotion` says how they combine.
Each wraps a NumPy dtype (`dtype.numpy`). NumPy itself has no bfloat16, no floats of 8 bits and no
complex numbers of halves: those come from ml_dtypes, which is imported when someone first asks.
"""

from __future__ import annotations

import importlib
from typing import Any, Final, NoReturn, TypeAlias, final

import numpy

NumpyDtype: TypeAlias = numpy.dtype[Any]

# The categories of torch's promotion rules; a higher one wins over a lower one.
BOOL: Final = 0
INTEGRAL: Final = 1
FLOATING: Final = 2
COMPLEX: Final = 3

_CATEGORIES = {"b": BOOL, "i": INTEGRAL, "u": INTEGRAL, "f": FLOATING, "c": COMPLEX}


class ReadOnly:
    """Attributes are set once, by the constructor, through `_set`."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"attribute {name!r} of {type(self).__name__} {self} is read-only")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"attribute {name!r} of {type(self).__name__} {self} is read-only")

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)


@final
class dtype(ReadOnly):  # noqa: N801  torch's name
    """The type of a tensor's elements; the instances are `float32`, `int64`, `bool` and so on.

    They are compared and hashed by identity, and stay the same object through pickle and copy.
    `numpy` is the NumPy dtype behind it, which torch's dtypes do not have.

    Example:
        >>> import pullback as torch
        >>> torch.float32, torch.float32.itemsize, torch.float32.is_floating_point
        (torch.float32, 4, True)
        >>> torch.complex128.to_real(), torch.float32.to_complex()
        (torch.float64, torch.complex64)
        >>> torch.int16.numpy
        dtype('int16')
    """

    __slots__ = (
        "_name",
        "abbr",
        "category",
        "is_complex",
        "is_differentiable",
        "is_floating_point",
        "is_signed",
        "itemsize",
        "numpy",
    )

    _name: str
    abbr: str
    category: int
    is_complex: bool
    is_differentiable: bool
    is_floating_point: bool
    is_signed: bool
    itemsize: int
    numpy: NumpyDtype

    def __init__(self, *args: object, **options: object) -> None:
        raise TypeError(
            "dtype objects cannot be created; use the ones that there are, such as torch.float32"
        )

    def __init_subclass__(cls) -> NoReturn:
        raise TypeError("dtype cannot be subclassed; its instances are all there is to it")

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> tuple[Any, tuple[Any]]:
        if (numbers := getattr(self.numpy, "numbers", None)) is not None:
            return as_dtype, (numbers.cls,)
        return named_dtype, (self._name,)

    @property
    def kind(self) -> str:
        """The letter by which NumPy tells what it holds, "biufc"; xarray asks for it.

        Example:
            >>> import pullback as torch
            >>> torch.uint8.kind, torch.float16.kind
            ('u', 'f')
        """
        return "f" if self.is_floating_point else "c" if self.is_complex else self.numpy.kind

    @property
    def type(self) -> Any:
        """The class of NumPy's scalars of this dtype, as NumPy's own dtypes have it; pint asks.

        Example:
            >>> import pullback as torch
            >>> torch.int16.type.__name__
            'int16'
        """
        return self.numpy.type

    def to_real(self) -> dtype:
        """The dtype of the real part: `float32` for `complex64`; others give themselves.

        Example:
            >>> import pullback as torch
            >>> torch.complex64.to_real(), torch.int8.to_real()
            (torch.float32, torch.int8)
        """
        return float16 if self._name == "complex32" else _REAL_OF.get(self, self)

    def to_complex(self) -> dtype:
        """The complex dtype whose parts can hold this one's values.

        RuntimeError for integers, bool and floats of 8 bits.

        Example:
            >>> import pullback as torch
            >>> torch.float64.to_complex()
            torch.complex128
        """
        if self.is_complex:
            return self
        if self._name == "bfloat16":
            return complex64
        if self in _COMPLEX_OF:
            return _COMPLEX_OF[self]
        if self is float16:
            try:
                return _load("complex32")
            except ImportError as error:
                raise RuntimeError(str(error)) from error.__cause__
        if hasattr(self.numpy, "numbers"):
            raise RuntimeError(f"{self} has no complex counterpart.")
        raise RuntimeError(
            f"{self} has no complex counterpart, only floating-point dtypes of 16 bits and more "
            "have; convert to torch.float32 first"
        )


def _make(name: str, abbr: str, numpy_dtype: NumpyDtype, category: int) -> dtype:
    made = object.__new__(dtype)
    made._set(
        _name=name,
        abbr=abbr,
        category=category,
        is_complex=category == COMPLEX,
        is_differentiable=category >= FLOATING,
        is_floating_point=category == FLOATING,
        is_signed=name != "float8_e8m0fnu" and (category >= FLOATING or numpy_dtype.kind == "i"),
        itemsize=numpy_dtype.itemsize,
        numpy=numpy_dtype,
    )
    return made


def _native(name: str, abbr: str) -> dtype:
    """The dtype that NumPy knows under the same name."""
    numpy_dtype = numpy.dtype(name)
    return _make(name, abbr, numpy_dtype, _CATEGORIES[numpy_dtype.kind])


float16 = _native("float16", "f16")
float32 = _native("float32", "f32")
float64 = _native("float64", "f64")
complex64 = _native("complex64", "c64")
complex128 = _native("complex128", "c128")
uint8 = _native("uint8", "u8")
uint16 = _native("uint16", "u16")
uint32 = _native("uint32", "u32")
uint64 = _native("uint64", "u64")
int8 = _native("int8", "i8")
int16 = _native("int16", "i16")
int32 = _native("int32", "i32")
int64 = _native("int64", "i64")
bool_ = _native("bool", "b8")

half = float16
double = float64
cfloat = complex64
cdouble = complex128
short = int16
long = int64

# The public names of all dtypes; those of LATE join when someone first uses them.
DTYPES: dict[str, dtype] = {
    "float16": float16,
    "float32": float32,
    "float64": float64,
    "complex64": complex64,
    "complex128": complex128,
    "uint8": uint8,
    "uint16": uint16,
    "uint32": uint32,
    "uint64": uint64,
    "int8": int8,
    "int16": int16,
    "int32": int32,
    "int64": int64,
    "bool": bool_,
}
# Further public names. `float` and `int` are not names of this module, which needs the builtins.
ALIASES: dict[str, dtype] = {
    "half": half,
    "float": float32,
    "double": double,
    "cfloat": cfloat,
    "cdouble": cdouble,
    "short": short,
    "int": int32,
    "long": long,
}
# For hot code: the dtype of an array is `BY_NUMPY[array.dtype]` once `from_numpy_dtype` knows it.
BY_NUMPY: dict[NumpyDtype, dtype] = {d.numpy: d for d in DTYPES.values()}

_COMPLEX_OF = {float32: complex64, float64: complex128}
_REAL_OF = {c: real for real, c in _COMPLEX_OF.items()}
# Torch takes these for a dtype wherever it wants one.
_PYTHON_TYPES: dict[type, dtype] = {bool: bool_, int: int64, float: float64, complex: complex128}


# Dtypes of ml_dtypes: their short names and categories.
LATE: dict[str, tuple[str, int]] = {
    "bfloat16": ("bf16", FLOATING),
    "float8_e4m3fn": ("f8e4m3fn", FLOATING),
    "float8_e4m3fnuz": ("f8e4m3fnuz", FLOATING),
    "float8_e5m2": ("f8e5m2", FLOATING),
    "float8_e5m2fnuz": ("f8e5m2fnuz", FLOATING),
    "float8_e8m0fnu": ("f8e8m0fnu", FLOATING),
    "complex32": ("c32", COMPLEX),
}
# The `char` of dtypes of numbers of other types (core/numbers), which no dtype of NumPy has.
OF_NUMBERS: Final[Any] = "#"
# Those that are for storing more than for computing, once they are used: see memory/narrow.py.
# And those of tensors of objects, which need the same care: core/numbers.
NARROW: set[NumpyDtype] = set()


def _load(name: str) -> dtype:
    """The singleton of a dtype that ml_dtypes has; ImportError where that is missing, or old."""
    if name not in DTYPES:
        try:
            found = getattr(importlib.import_module("ml_dtypes"), name)
        except (ImportError, AttributeError) as error:
            raise ImportError(_missing(name)) from error
        numpy_dtype = numpy.dtype(found)
        # setdefault, so that threads that get here together agree on one object.
        made = DTYPES.setdefault(name, _make(name, LATE[name][0], numpy_dtype, LATE[name][1]))
        BY_NUMPY[numpy_dtype] = globals()[name] = made
        if name != "bfloat16":
            NARROW.add(numpy_dtype)
    return DTYPES[name]


def enter_numbers(stand_in: Any, *, is_complex: bool) -> dtype:
    """The dtype of tensors of objects, by what stands where others have NumPy's: core/numbers."""
    category = COMPLEX if is_complex else FLOATING
    made = BY_NUMPY[stand_in] = _make(stand_in.name, "obj", stand_in, category)
    NARROW.add(stand_in)
    return made


def enter_pair(real: dtype, pair: dtype) -> None:
    """Make a dtype the complex counterpart of another."""
    _COMPLEX_OF[real], _REAL_OF[pair] = pair, real


def numbers_of(value: Any) -> Any:
    """The type of numbers that a class stands for (core/numbers/types.py), or None."""
    if not isinstance(value, type) or value in _PYTHON_TYPES:
        return None
    # Not an import statement, which exported programs would follow.
    return importlib.import_module("pullback.core.numbers.types").of_class(value)


def _missing(name: str) -> str:
    from pullback.installed import install_command

    newest = " in its newest version" if name == "complex32" else ""
    return (
        f"{name} needs the package ml_dtypes{newest}, since NumPy has no such dtype; install it "
        f"with `{install_command('ml_dtypes')}`"
    )


def __getattr__(name: str) -> Any:
    wanted = "complex32" if name == "chalf" else name
    if wanted in LATE:
        try:
            return _load(wanted)
        except ImportError as error:
            # AttributeError, so that hasattr(torch, "bfloat16") tells whether it can be used; of no
            # object, so that Python does not ask whether float16 was meant.
            raise AttributeError(str(error), name=wanted, obj=None) from error.__cause__
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def named_dtype(name: str) -> dtype:
    """The dtype of a given name, such as "float32" or "bool"; pickles of dtypes load through this.

    Example:
        >>> from pullback.core.dtype import named_dtype
        >>> named_dtype("float32"), named_dtype("long")
        (torch.float32, torch.int64)
    """
    found = DTYPES.get(name) or ALIASES.get(name)
    if found is not None:
        return found
    if name in LATE or name == "chalf":
        return _load("complex32" if name == "chalf" else name)
    raise ValueError(f"there is no dtype {name!r}; known are {', '.join(DTYPES)}")


def from_numpy_dtype(numpy_dtype: NumpyDtype) -> dtype:
    """The dtype for arrays of a NumPy dtype.

    TypeError where there is none (object, str, longdouble), ValueError where the byte order is not
    this machine's.

    Example:
        >>> import numpy as np
        >>> from pullback.core.dtype import from_numpy_dtype
        >>> from_numpy_dtype(np.dtype("int16"))
        torch.int16
    """
    try:
        return BY_NUMPY[numpy_dtype]
    except (KeyError, TypeError):
        return _unusual_numpy_dtype(numpy_dtype)


def _unusual_numpy_dtype(numpy_dtype: object) -> dtype:
    if not isinstance(numpy_dtype, numpy.dtype):
        raise TypeError(
            f"expected a numpy.dtype, got {numpy_dtype!r} of type {type(numpy_dtype).__name__}"
        )
    # An array of this dtype exists, so ml_dtypes is imported already.
    if numpy_dtype.name in LATE and numpy_dtype == _load(numpy_dtype.name).numpy:
        return _load(numpy_dtype.name)
    if numpy_dtype.kind == "O" and numpy_dtype.metadata is not None:
        raise NotImplementedError(
            f"This function has no meaning for numbers of type "
            f"{numpy_dtype.metadata['numbers'].name}: it makes memory of its own for results."
        )
    if not numpy_dtype.isnative:
        raise ValueError(
            f"arrays of dtype {numpy_dtype} have a byte order that is not this machine's and "
            "cannot become tensors; convert with `array.astype(array.dtype.newbyteorder('='))`"
        )
    raise TypeError(
        f"arrays of dtype {numpy_dtype} cannot become tensors; supported are {', '.join(DTYPES)}; "
        "convert with `array.astype(...)`"
    )


def as_dtype(value: object) -> dtype:
    """`value` as a dtype: itself, or one of Python's `float`, `int`, `bool`, `complex`.

    Python's types have their own width, so `float` is `float64`. A class of numbers, as
    `fractions.Fraction`, is the dtype of tensors of those. All else is a TypeError.

    Example:
        >>> import pullback as torch
        >>> torch.zeros(2, dtype=float).dtype
        torch.float64
    """
    if isinstance(value, dtype):
        return value
    if isinstance(value, type) and value in _PYTHON_TYPES:
        return _PYTHON_TYPES[value]
    if (numbers := numbers_of(value)) is not None:
        found: dtype = numbers.dtype
        return found
    raise TypeError(
        f"expected a torch.dtype such as torch.float32, got {value!r} of type "
        f"{type(value).__name__}{_suggestion(value)}"
    )


def _suggestion(value: object) -> str:
    """The dtype that was probably meant, when NumPy understands `value`."""
    is_numpy = isinstance(value, numpy.dtype | str)
    is_numpy = is_numpy or (isinstance(value, type) and issubclass(value, numpy.generic))
    if not is_numpy:
        return ""
    try:
        meant = BY_NUMPY.get(numpy.dtype(value))  # type: ignore[call-overload]  # any str
    except TypeError:
        return ""
    return f"; did you mean {meant}?" if meant else ""


_Dtype: TypeAlias = dtype  # inside the next class, `dtype` is its attribute


class _Default:
    """The default dtype, and the NumPy dtypes that follow from it; hot code reads the slots."""

    __slots__ = ("_complex_numpy", "dtype", "numpy")

    dtype: _Dtype
    numpy: NumpyDtype
    _complex_numpy: NumpyDtype | None

    def choose(self, chosen: _Dtype) -> None:
        """Make `chosen` the default."""
        self.dtype = chosen
        self.numpy = chosen.numpy
        self._complex_numpy = None if chosen is float16 else chosen.to_complex().numpy

    @property
    def complex_numpy(self) -> NumpyDtype:
        """What Python's complex numbers become; that of float16 is loaded when first needed."""
        if self._complex_numpy is None:
            return self.dtype.to_complex().numpy
        return self._complex_numpy


default = _Default()
default.choose(float32)


def get_default_dtype() -> dtype:
    """The dtype of floating-point tensors made from Python numbers; `float32` at first.

    Example:
        >>> import pullback as torch
        >>> torch.get_default_dtype()
        torch.float32
    """
    return default.dtype


def set_default_dtype(d: dtype, /) -> None:
    """Choose the dtype that Python floats become, in all threads.

    Complex numbers become its complex counterpart. TypeError unless `d` is a floating-point dtype.

    Example:
        >>> import pullback as torch
        >>> torch.set_default_dtype(torch.float64)
        >>> torch.tensor(1.5).dtype, torch.tensor(1j).dtype
        (torch.float64, torch.complex128)
        >>> torch.set_default_dtype(torch.float32)
    """
    if not isinstance(d, dtype) or not d.is_floating_point or d.itemsize == 1:
        raise TypeError(
            f"the default dtype must be a floating-point dtype, got {d!r}; use torch.float16, "
            "torch.bfloat16, torch.float32 or torch.float64"
        )
    default.choose(d)


def numpy_dtype(value: Any) -> NumpyDtype:
    """The NumPy dtype that one of ours, Python's or NumPy's stands for."""
    if isinstance(value, numpy.dtype) or hasattr(value, "numbers"):
        found: NumpyDtype = value
        return found
    return as_dtype(value).numpy
