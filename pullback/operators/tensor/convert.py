"""From one dtype to another, and from one device to another.

Early in the order of the operators, since the rules of all others may cast (`astype`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from pullback.core import errors, origin
from pullback.core.arrays import F32
from pullback.core.device import CPU, META, as_device, device, require_available
from pullback.core.dtype import (
    DTYPES,
    LATE,
    NARROW,
    OF_NUMBERS,
    NumpyDtype,
    as_dtype,
    dtype,
    from_numpy_dtype,
    get_default_dtype,
    named_dtype,
    numbers_of,
    numpy_dtype,
)
from pullback.core.dtype import dtype as torch_dtype
from pullback.core.layout import (
    SPARSE,
    empty_like,
    is_in_format,
    memory_format,
    order_kept,
    order_of,
    preserve_format,
    sparse_coo,
    suggested_format,
)
from pullback.core.memory.narrow import converted, held
from pullback.core.ports import ports
from pullback.core.promotion import is_half
from pullback.core.tensor import Tensor, wrap
from pullback.operators.declare import (
    METHODS,
    REQUIRED,
    Array,
    Namespace,
    elementwise,
    linear,
    method,
)
from pullback.operators.options import missing, numpy_named, operand

# Casts ------------------------------------------------------------------------------------------


def cast_array(xp: Namespace, array: Array, dtype: NumpyDtype, format: memory_format) -> Array:
    """A copy in another dtype and memory order; the imaginary part of what becomes real is lost."""
    if NARROW and (dtype in NARROW or array.dtype in NARROW) and not hasattr(array, "_device"):
        array = array.view() if array.dtype == dtype else converted(array, dtype)
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        array = array.real
    if format is preserve_format and 0 not in array.strides:
        return array.astype(dtype)  # NumPy keeps the order of strides as torch does
    if format is not preserve_format:
        order_of("to", format, array.ndim)  # refuses the wrong number of dimensions
    result = empty_like(xp, array, dtype, format)
    if NARROW:
        result = held(result)
    result[...] = array
    return result


@linear(input=lambda g, input_dtype: _back(g, input_dtype), has_out=False)
def _to_copy(
    xp: Namespace, input: Array, dtype: Any, memory_format: memory_format = preserve_format
) -> Array:
    """Copy to a dtype that has gradients."""
    return cast_array(xp, input, dtype, memory_format)


@elementwise(promote=None, has_out=False)
def _to_fixed(
    xp: Namespace, input: Array, dtype: Any, memory_format: memory_format = preserve_format
) -> Array:
    """Copy to integers or bool, where gradients end."""
    return cast_array(xp, input, dtype, memory_format)


@linear(
    input=lambda g, device, source, input_dtype: _to_device(g, source, device, input_dtype),
    has_out=False,
    node="ToCopyBackward0",
)
def _to_device(xp: Namespace, input: Array, device: Any, source: Any, dtype: Any) -> Array:
    """Copy to a device, in a dtype that has gradients."""
    return ports.placed(input, device, dtype)


@elementwise(promote=None, has_out=False)
def _to_device_fixed(xp: Namespace, input: Array, device: Any, dtype: Any) -> Array:
    """Copy integers or truth values to a device, where gradients end."""
    return ports.placed(input, device, dtype)


def _back(g: Any, dtype: Any) -> Any:
    """A gradient in the dtype of what was converted."""
    return g if getattr(g, "_array", g).dtype == dtype else _to_copy(g, dtype)


def astype(input: Any, dtype: Any) -> Any:
    """`input`, array or tensor, in a dtype of ours or NumPy's; itself if it has that already.

    For rules: complex to real drops the imaginary part without a word. Fractions and the like do
    not become floats here, which a program must ask for.
    """
    wanted = numpy_dtype(dtype)
    have = getattr(input, "_array", input).dtype
    if have == wanted:
        return input
    if have.char == OF_NUMBERS != wanted.char and wanted.kind in "fcVW":
        raise NotImplementedError(
            f"This function has no meaning for numbers of type {have.written}: it is computed in "
            f"{from_numpy_dtype(wanted)}. Convert the tensor with .to() first."
        )
    if wanted.kind in "fcVW":
        return _to_copy(input, wanted)
    return _to_fixed(input, wanted)


def widened(input: Any) -> Any:
    """Half precision, array or tensor, as float32, for steps that must not round; others as is."""
    return astype(input, F32) if is_half(getattr(input, "_array", input).dtype) else input


def _converted(
    input: Tensor, wanted: NumpyDtype | None, format: memory_format, *, copy: bool
) -> Tensor:
    """`input` itself where nothing changes, else a copy."""
    array = input._array
    have = array.dtype
    if wanted is None:
        wanted = have
    if not copy and have == wanted and _has_format(array, format):
        return input
    if have.kind in "cW" and wanted.kind not in "cbW":
        warnings.warn(
            f"Converting {input.dtype} to {from_numpy_dtype(wanted)} drops the imaginary part. Use "
            "`.real` if that is meant, `.abs()` for the modulus.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
    if wanted.kind in "fcVW":
        return _to_copy(input, wanted, format)
    return _to_fixed(input, wanted, format)


def _has_format(array: Array, format: memory_format) -> bool:
    # As torch: a transposed matrix counts as contiguous_format, since no other format fits it.
    if format is preserve_format or is_in_format(array, format):
        return True
    order_of("to", format, array.ndim)
    return format is suggested_format(array)


# to and its relatives ---------------------------------------------------------------------------

_PYTHON_TYPES = (float, int, bool, complex)


@method
def to(self: Tensor, *args: Any, **options: Any) -> Tensor:
    """Convert to a dtype, a device, or those of another tensor; the same tensor if it has them.

    Called as `to(dtype)`, `to(device, dtype)` or `to(other)`, each with `non_blocking`, `copy` and
    `memory_format`.

    Example:
        >>> import pullback as torch
        >>> x = torch.ones(2)
        >>> x.to(torch.int64), x.to("cpu", torch.float64), x.to(x) is x
        (tensor([1, 1]), tensor([1., 1.], dtype=torch.float64), True)
    """
    if len(args) == 1 and not options and type(args[0]) is dtype:
        return _converted(self, args[0].numpy, preserve_format, copy=False)
    given = _named_arguments(args, options)
    for name in ("non_blocking", "copy"):
        if not isinstance(given.get(name, False), bool):
            raise _refused(f"{name} must be a bool, got {given[name]!r}")
    other = given.get("other")
    wanted = given.get("dtype")
    place = self.device
    if other is not None:
        wanted, place = other.dtype, other.device
    elif given.get("device") is not None:
        place = require_available(as_device(given["device"]))
    if place is not self.device:
        return _moved(self, place, None if wanted is None else _dtype_argument(wanted))
    return _converted(
        self,
        None if wanted is None else _dtype_argument(wanted),
        given.get("memory_format") or preserve_format,
        copy=given.get("copy", False),
    )


def _moved(self: Tensor, place: device, wanted: NumpyDtype | None) -> Tensor:
    """To device "meta", where only the shape arrives; from there nothing comes back."""
    if self._array.dtype.char == OF_NUMBERS:
        raise RuntimeError(
            f"Numbers of type {self._array.dtype.written} are Python objects, which are in the "
            f"memory of the host alone; device '{place}' cannot have them."
        )
    if self.device is META and place is not META:
        raise errors.no_data(f"to('{place}')")
    if place is not META:
        return _carried(self, place, self._array.dtype if wanted is None else wanted)
    if self._layout in SPARSE:
        from pullback.operators.sparse.filled import on_meta  # which few need

        return on_meta(self, wanted)
    from pullback.core.memory import meta

    array = self._array  # a copy fills its memory, whatever this one shares or leaves out
    return wrap(meta.of(array.shape, wanted or array.dtype, order_kept(array)))


def _carried(input: Tensor, place: device, wanted: NumpyDtype) -> Tensor:
    """The values on another device; the gradient comes back the same way."""
    if wanted.kind in "fcVW":
        return _to_device(input, place, input.device, wanted)
    return _to_device_fixed(input, place, wanted)


def _named_arguments(args: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `to` by name; the first one tells which of the forms is meant."""
    names = ["device", "dtype", "non_blocking", "copy"]
    if args and isinstance(args[0], Tensor):
        names = ["other", "non_blocking", "copy"]
    elif args and (isinstance(args[0], dtype) or _is_type(args[0])):
        names = ["dtype", "non_blocking", "copy"]
    if len(args) > len(names):
        raise _refused(f"got {len(args)} positional arguments")
    given = dict(zip(names, args, strict=False))
    for name, value in options.items():
        if name in given:
            raise _refused(f"got two values for {name}")
        if name not in (*names, "memory_format") or name == "other":
            raise _refused(f"got an unknown argument {name!r}")
        given[name] = value
    format = given.get("memory_format")
    if format is not None and not isinstance(format, memory_format):
        raise _refused(f"memory_format must be a torch.memory_format, got {format!r}")
    return given


def _dtype_argument(value: Any) -> NumpyDtype:
    if not isinstance(value, dtype) and not _is_type(value):
        raise _refused(f"dtype must be a torch.dtype, got {value!r}")
    return as_dtype(value).numpy


def _is_type(value: Any) -> bool:
    """Whether a class stands for a dtype: one of Python's, or one of numbers of another type."""
    return isinstance(value, type) and (value in _PYTHON_TYPES or numbers_of(value) is not None)


def _refused(reason: str) -> TypeError:
    return TypeError(
        f"to(): {reason}; call it as to(dtype), to(device, dtype) or to(other), then non_blocking, "
        "copy and memory_format."
    )


def _caster(method_name: str, dtype_name: str) -> Callable[..., Tensor]:
    known = DTYPES.get(dtype_name)  # None: one that is loaded when first used
    same = None if known is None else known.numpy

    def cast(self: Tensor, *, memory_format: memory_format = preserve_format) -> Tensor:
        if self._array.dtype is same and memory_format is preserve_format:
            return self
        return _converted(self, named_dtype(dtype_name).numpy, memory_format, copy=False)

    cast.__name__ = cast.__qualname__ = method_name
    cast.__doc__ = f"""The values as {dtype_name}; the tensor itself if it has that dtype already.

    >>> import pullback as torch
    >>> torch.tensor([1, 0]).{method_name}().dtype
    torch.{dtype_name}
    """
    return cast


# Method -> dtype. No functions of this module: most have names that Python uses.
_CASTS = {
    "half": "float16",
    "bfloat16": "bfloat16",
    "float": "float32",
    "double": "float64",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "chalf": "complex32",
    "byte": "uint8",
    "char": "int8",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "bool": "bool",
}
METHODS.update({name: _caster(name, of) for name, of in _CASTS.items()})


@method
@numpy_named
def type_as(self: Tensor, other: Tensor = REQUIRED, x2: Any = None) -> Tensor:
    """Convert to the dtype of `other`.

    >>> import pullback as torch
    >>> torch.tensor([1, 2]).type_as(torch.zeros(1))
    tensor([1., 2.])
    """
    if x2 is not None:
        other = operand("type_as", "other", other, x2=x2)
    if other is REQUIRED:
        raise missing("type_as", "other")
    if not isinstance(other, Tensor):
        raise errors.not_a_tensor("type_as", "other", other)
    return _converted(self, other._array.dtype, preserve_format, copy=False)


@method
def cpu(self: Tensor, *, memory_format: memory_format = preserve_format) -> Tensor:
    """This tensor in host memory; itself if it is there already.

    >>> import pullback as torch
    >>> torch.zeros(2).cpu().device
    device(type='cpu')
    """
    if self.device is not CPU:
        return _moved(self, CPU, None)
    return _converted(self, None, memory_format, copy=False)


def _to_accelerator(kind: str) -> Any:
    """The method that brings a tensor to a type of device; an error where there is none."""

    def move(
        self: Tensor,
        device: Any = None,
        non_blocking: bool = False,
        *,
        memory_format: memory_format = preserve_format,
    ) -> Tensor:
        # A number alone is one of this type's devices.
        place = f"{kind}:{device}" if isinstance(device, int) else device
        there = require_available(as_device(kind if place is None else place))
        if there is not self.device:
            return _moved(self, there, None)
        return _converted(self, None, memory_format, copy=False)

    move.__name__ = move.__qualname__ = kind
    move.__doc__ = f"""This tensor on a device of type {kind!r}; an error where there is none.

    >>> import pullback as torch
    >>> present = {kind!r} in str(torch.accelerator.current_accelerator())
    >>> x = torch.ones(2)
    >>> x = x.{kind}() if present else x
    """
    return method(move)


cuda, xpu, mtia, ipu = (_to_accelerator(kind) for kind in ("cuda", "xpu", "mtia", "ipu"))


# Names of torch's old tensor types, by dtype name; `Tensor.type` speaks in them.
TYPE_NAMES = {
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "bool": "Bool",
}
# Those of dtypes that came later: names, but no classes.
_LATER = {"complex32": "ComplexHalf"} | {name: name.capitalize() for name in LATE if "8_" in name}
_DTYPE_NAMES = {f"torch.{name}Tensor": of for of, name in (TYPE_NAMES | _LATER).items()}


def type_name(tensor: Tensor) -> str:
    """The old name of a tensor's type: where it is, whether it is sparse, and its dtype."""
    of, place = tensor.dtype._name, tensor.device.type
    where = "" if place == "cpu" else f"{place}."
    how = "sparse." if tensor.layout is sparse_coo else ""
    return f"torch.{where}{how}{(TYPE_NAMES | _LATER).get(of, of)}Tensor"


def _type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The old name of the tensor's type, or the tensor converted to `dtype` (or such a name).

    Example:
        >>> import pullback as torch
        >>> torch.ones(1).type(), torch.ones(1).type(torch.int64)
        ('torch.FloatTensor', tensor([1]))
    """
    if dtype is None:
        return type_name(self)
    if dtype is Tensor:  # the class itself stands for the default type
        dtype = get_default_dtype()
    if isinstance(dtype, str | type):
        name = dtype if isinstance(dtype, str) else getattr(dtype, "type_name", dtype.__name__)
        name = name.replace("torch.sparse.", "torch.")  # which leaves the layout as it is
        if name not in _DTYPE_NAMES:
            known = ", ".join(_DTYPE_NAMES)
            raise ValueError(f"type(): {name!r} names no tensor type; known are {known}.")
        dtype = named_dtype(_DTYPE_NAMES[name])
    elif not isinstance(dtype, torch_dtype):
        raise TypeError(
            f"type(): dtype must be a torch.dtype, a type or its name, got {dtype!r} of type "
            f"{type(dtype).__name__}."
        )
    return _converted(self, dtype.numpy, preserve_format, copy=False)


METHODS["type"] = _type
