"""Functions that make tensors of a given size: filled with one number, or not at all.

`*_like` and `new_*` are operators underneath, so that rules may call them (arrays in, arrays out)
and transforms see them; the others start from nothing and always give tensors.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import F64, Array
from pullback.core.device import META, as_device, require_available
from pullback.core.dtype import (
    NumpyDtype,
    bool_,
    complex64,
    complex128,
    default,
    from_numpy_dtype,
    int64,
)
from pullback.core.layout import (
    SPARSE,
    contiguous_format,
    empty_in_order,
    memory_format,
    order_of,
    preserve_format,
)
from pullback.core.layout import empty_like as empty_array_like
from pullback.core.mode import settle
from pullback.core.process.determinism import fill_unwritten, wish
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.values import fill_number, number_argument
from pullback.operators.conditions import contiguous, given, says
from pullback.operators.create.factory import (
    Options,
    Unpack,
    allocated,
    at_once,
    checked,
    made,
    one_shape,
    shape_argument,
)
from pullback.operators.create.numbers import numbers_dtype
from pullback.operators.declare import (
    Namespace,
    Shape,
    elementwise,
    kernel,
    method,
    primitive,
    quick,
)
from pullback.operators.options import as_int
from pullback.operators.running.by_example import level_reading

FOUND_IN = {
    "torch": """
        empty empty_like empty_permuted empty_strided eye full full_like ones ones_like
        scalar_tensor tril_indices triu_indices zeros zeros_like
    """
}

_UNSET: Any = object()


# From a size ------------------------------------------------------------------------------------


@quick
def zeros(*sizes: Any, size: Any = None, out: Any = None, **options: Unpack[Options]) -> Tensor:
    """A tensor of zeros; give the size as ints or as one tuple.

    Example:
        >>> import pullback as torch
        >>> torch.zeros(2, 3)
        tensor([[0., 0., 0.],
                [0., 0., 0.]])
    """
    if not options and out is None and size is None:
        usual = at_once(numpy.zeros, sizes, default.numpy)
        if usual is not None:
            return usual
    shape = shape_argument("zeros", sizes, size)
    if options and options.get("layout") in SPARSE:
        return _sparse_zeros("zeros", shape, options, out)
    dtype = checked("zeros", options, default.numpy, out)
    return made("zeros", allocated("zeros", numpy.zeros, shape, dtype), options, out)


def _sparse_zeros(op: str, shape: tuple[int, ...], options: Options, out: Any) -> Tensor:
    """Zeros in a sparse layout: no element is specified."""
    from pullback.operators.sparse.filled import become_zeros  # which few need
    from pullback.operators.sparse.filled import zeros as of_layout

    kind = options.pop("layout")
    dtype = checked(op, options, default.numpy, out)
    made = of_layout(kind, shape, dtype)
    if out is not None:
        return become_zeros(op, out, made)
    return made.requires_grad_() if options.get("requires_grad") else made


@quick
def ones(*sizes: Any, size: Any = None, out: Any = None, **options: Unpack[Options]) -> Tensor:
    """A tensor of ones; give the size as ints or as one tuple.

    Example:
        >>> import pullback as torch
        >>> torch.ones(2, dtype=torch.int64)
        tensor([1, 1])
    """
    if not options and out is None and size is None:
        usual = at_once(numpy.empty, sizes, default.numpy)
        if usual is not None:
            usual._array.fill(1)
            return usual
    shape = shape_argument("ones", sizes, size)
    dtype = checked("ones", options, default.numpy, out)
    array = allocated("ones", numpy.empty, shape, dtype)
    array.fill(1)
    return made("ones", array, options, out)


@quick
def empty(
    *sizes: Any,
    size: Any = None,
    out: Any = None,
    memory_format: memory_format | None = contiguous_format,
    **options: Unpack[Options],
) -> Tensor:
    """An uninitialized tensor: it holds whatever was in memory, so write before you read.

    Example:
        >>> import pullback as torch
        >>> torch.empty(2, 3).shape
        torch.Size([2, 3])
    """
    if (
        not (options or wish.fills)
        and out is None
        and size is None
        and memory_format is contiguous_format
    ):
        usual = at_once(numpy.empty, sizes, default.numpy)
        if usual is not None:
            return usual
    shape = shape_argument("empty", sizes, size)
    if options and options.get("layout") in SPARSE:
        return _sparse_zeros("empty", shape, options, out)
    dtype = checked("empty", options, default.numpy, out)
    if memory_format is None or memory_format is contiguous_format:
        array = allocated("empty", numpy.empty, shape, dtype)
    else:
        order = order_of("empty", memory_format, len(shape))
        array = empty_in_order(numpy, shape, dtype, order)
    result = made("empty", array, options, out)
    return fill_unwritten(result) if wish.fills else result


@quick
def full(size: Any, fill_value: Any, *, out: Any = None, **options: Unpack[Options]) -> Tensor:
    """A tensor filled with one number, whose type decides the dtype unless one is given.

    Example:
        >>> import pullback as torch
        >>> torch.full((2,), 7), torch.full((2,), 0.5)
        (tensor([7, 7]), tensor([0.5000, 0.5000]))
    """
    if not options and out is None and type(fill_value) is float and abs(fill_value) < _SAFE:
        usual = at_once(numpy.empty, (size,), default.numpy) if type(size) is not int else None
        if usual is not None:
            usual._array.fill(fill_value)
            return usual
    shape = one_shape("full", size)
    number = number_argument("full", "fill_value", fill_value)
    dtype = checked("full", options, number_dtype(number), out)
    return made("full", filled("full", shape, number, dtype), options, out)


_SAFE = 1e4  # numbers that every floating-point dtype holds


def number_dtype(number: Any) -> NumpyDtype:
    """The dtype that a Python number suggests."""
    if isinstance(number, bool):
        return bool_.numpy
    if isinstance(number, int):
        return int64.numpy
    if wanted := numbers_dtype({type(number)}):
        return wanted
    if isinstance(number, complex):  # no complex number is narrower by default
        return complex128.numpy if default.numpy == F64 else complex64.numpy
    return default.numpy


def filled(op: str, shape: tuple[int, ...], number: Any, dtype: NumpyDtype) -> Array:
    """An array of one number that must fit the dtype."""
    settle()
    value = fill_number(op, number, dtype)
    array = allocated(op, numpy.empty, shape, dtype)
    array.fill(value)
    return array


@quick
def scalar_tensor(s: Any, **options: Unpack[Options]) -> Tensor:
    """A 0-d tensor of one number, in the default dtype unless another is given.

    >>> import pullback as torch
    >>> torch.scalar_tensor(3)
    tensor(3.)
    """
    number = number_argument("scalar_tensor", "s", s)
    dtype = checked("scalar_tensor", options, default.numpy)
    return made("scalar_tensor", filled("scalar_tensor", (), number, dtype), options)


def empty_strided(size: Any, stride: Any, **options: Unpack[Options]) -> Tensor:
    """As `empty`, with given strides, counted in elements.

    Example:
        >>> import pullback as torch
        >>> torch.empty_strided((2, 3), (1, 2)).stride()
        (1, 2)
    """
    dtype = checked("empty_strided", options, default.numpy)
    result = made("empty_strided", _strided("empty_strided", size, stride, dtype), options)
    return fill_unwritten(result) if wish.fills else result


def _strided(op: str, size: Any, stride: Any, dtype: NumpyDtype) -> Array:
    shape = one_shape(op, size)
    if not isinstance(stride, tuple | list):
        raise TypeError(f"{op}(): stride must be a tuple of ints, got {type(stride).__name__}.")
    steps = tuple(operator.index(step) for step in stride)
    if len(steps) != len(shape):
        raise RuntimeError(
            f"{op}(): size {shape} and stride {steps} must have the same length, one per dimension."
        )
    if any(step < 0 for step in steps):
        raise RuntimeError(f"{op}(): stride {steps} has negative steps, which tensors cannot have.")
    extent = 1 + sum((length - 1) * step for length, step in zip(shape, steps, strict=True))
    if 0 in shape:
        extent = 0
    memory = allocated(op, numpy.empty, (extent,), dtype)
    return numpy.ndarray(shape, dtype, memory, 0, [step * dtype.itemsize for step in steps])


def empty_permuted(size: Any, physical_layout: Any, **options: Unpack[Options]) -> Tensor:
    """As `empty`, without gaps; `physical_layout` lists the dimensions from slowest to fastest.

    Example:
        >>> import pullback as torch
        >>> torch.empty_permuted((2, 3, 4), (2, 0, 1)).stride()
        (3, 1, 6)
    """
    op = "empty_permuted"
    shape = one_shape(op, size)
    dtype = checked(op, options, default.numpy)
    order = tuple(operator.index(dim) for dim in physical_layout)
    if sorted(order) != list(range(len(shape))):
        raise RuntimeError(
            f"{op}(): physical_layout {order} must name each of the {len(shape)} dimensions of "
            f"size {shape} once, counted from 0."
        )
    result = made(op, empty_in_order(numpy, shape, dtype, order), options)
    return fill_unwritten(result) if wish.fills else result


# Matrices ---------------------------------------------------------------------------------------


@quick
def eye(n: int, m: int = _UNSET, *, out: Any = None, **options: Unpack[Options]) -> Tensor:
    """A matrix of n rows and m columns (n if not given) with ones on the diagonal.

    Example:
        >>> import pullback as torch
        >>> torch.eye(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
    if m is _UNSET and out is None and not options:
        usual = at_once(numpy.zeros, (n, n), default.numpy)
        if usual is not None:
            usual._array.reshape(-1)[:: n + 1] = 1
            return usual
    rows = _count("eye", "n", n)
    columns = rows if m is _UNSET else _count("eye", "m", m)
    dtype = checked("eye", options, default.numpy, out)
    array = allocated("eye", numpy.zeros, (rows, columns), dtype)
    diagonal = min(rows, columns)
    array.reshape(-1)[: diagonal * columns : columns + 1] = 1
    return made("eye", array, options, out)


def _count(op: str, name: str, value: Any) -> int:
    count = as_int(value, op, name)
    if count < 0:
        raise RuntimeError(f"{op}(): {name} must not be negative, got {count}.")
    return count


def tril_indices(row: int, col: int, offset: int = 0, **options: Unpack[Options]) -> Tensor:
    """Row and column numbers of a matrix's lower triangle, up to diagonal `offset`.

    Example:
        >>> import pullback as torch
        >>> torch.tril_indices(2, 2)
        tensor([[0, 1, 1],
                [0, 0, 1]])
    """
    return _triangle("tril_indices", row, col, offset, options, lower=True)


def triu_indices(row: int, col: int, offset: int = 0, **options: Unpack[Options]) -> Tensor:
    """Row and column numbers of a matrix's upper triangle, from diagonal `offset` on.

    >>> import pullback as torch
    >>> torch.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _triangle("triu_indices", row, col, offset, options, lower=False)


def _triangle(op: str, row: int, col: int, offset: int, options: Options, *, lower: bool) -> Tensor:
    rows, columns = _count(op, "row", row), _count(op, "col", col)
    offset = as_int(offset, op, "offset")
    dtype = checked(op, options, int64.numpy)
    if dtype.kind not in "iu":
        raise NotImplementedError(
            f"{op}(): indices are integers, dtype={from_numpy_dtype(dtype)} is none; use "
            "torch.int64."
        )
    below = numpy.tri(rows, columns, offset if lower else offset - 1, dtype=bool)
    found = numpy.nonzero(below if lower else ~below)
    return made(op, numpy.stack(found).astype(dtype), options)


# Like another tensor ----------------------------------------------------------------------------


@elementwise(
    promote=None,
    has_out=False,
    inline="numpy.zeros(a0.shape, $dtype) if $number is False "
    "and $memory_format is preserve_format and a0.flags.c_contiguous "
    "else forward(numpy, a0, $number, $dtype, $memory_format)",
)
def _like(
    xp: Namespace, input: Array, number: Any, dtype: Any, memory_format: memory_format
) -> Array:
    """Memory of the input's size, filled with `number` unless that is None."""
    result = empty_array_like(xp, input, dtype, memory_format)
    if number is not None:
        result.fill(number)
    return result


_in_its_order = contiguous & says(
    "memory_format is preserve_format", preserve_format=preserve_format
)


@kernel(_like, when=_in_its_order & given(number=False))
def _zeros(xp: Namespace, input: Array, dtype: Any) -> Array:
    return xp.zeros(input.shape, dtype)  # the system gives zero pages faster than fill writes


@kernel(_like, when=_in_its_order)
def _filled(xp: Namespace, input: Array, number: Any, dtype: Any) -> Array:
    result = xp.empty(input.shape, dtype)
    if number is not None:
        result.fill(number)
    return result


@primitive(has_out=False)
def _new(xp: Namespace, input: Array, size: Shape, number: Any, dtype: Any) -> Array:
    """Memory of any size where the input is, filled with `number` unless that is None."""
    if number is False:
        return xp.zeros(size, dtype)
    result = xp.empty(size, dtype)
    if number is not None:
        result.fill(number)
    return result


def _made_like(
    op: str, input: Any, number: Any, options: Options, memory_format: memory_format | None
) -> Any:
    if input.__class__ is Tensor and not options and memory_format is preserve_format:
        dtype = input._array.dtype
        if number is not None and number.__class__ is not bool:
            number = _fitting(op, number, dtype)
        return _like(input, number, dtype, preserve_format)
    if getattr(input, "_layout", None) in SPARSE or (options and options.get("layout") in SPARSE):
        input, memory_format = _sparse_like(op, input, number, options, memory_format)
    dtype = _dtype_like(op, input, options)
    if options and "device" in options and options["device"] is not None:
        input = _on_device(input, options["device"])
    order = preserve_format if memory_format is None else memory_format
    result = _like(input, _fitting(op, number, dtype), dtype, order)
    return result.requires_grad_() if options and options.get("requires_grad") else result


def _sparse_like(
    op: str, input: Any, number: Any, options: Options, memory_format: memory_format | None
) -> tuple[Any, memory_format | None]:
    """An example in the layout that is asked for, where that or the input's is a sparse one."""
    from pullback.operators.sparse.filled import example  # which few need

    wanted = options.pop("layout", None) if options else None
    return example(op, input, number, wanted, memory_format), preserve_format


def _on_device(input: Tensor, place: Any) -> Any:
    """An example on the device where the result is to be; its values do not matter."""
    place = require_available(as_device(place))
    if place is input.device:
        return input
    if place is META:
        return input.to(place)
    if (empty_on := getattr(input, "_empty_on", None)) is not None:
        return empty_on(place)  # a tensor whose memory is that of others inside
    return wrap(numpy.empty_like(input._array.view(numpy.ndarray)))


def _dtype_like(op: str, input: Any, options: Options) -> NumpyDtype:
    """The dtype to be made; in rules that run on arrays, options may name NumPy's."""
    try:
        have: NumpyDtype = getattr(input, "_array", input).dtype
    except AttributeError:
        raise errors.not_a_tensor(op, "input", input) from None
    if not options:
        return have
    wanted = options.get("dtype")
    if isinstance(wanted, numpy.dtype):
        return wanted
    return checked(op, options, have)


def _fitting(op: str, number: Any, dtype: NumpyDtype) -> Any:
    if number is None or type(number) is bool:
        return number
    settle()
    return fill_number(op, number, dtype)


def empty_like(
    input: Any, *, memory_format: memory_format | None = preserve_format, **options: Unpack[Options]
) -> Any:
    """A tensor of the input's size, dtype and order of strides, its elements not set.

    >>> import pullback as torch
    >>> torch.empty_like(torch.zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    result = _made_like("empty_like", input, None, options, memory_format)
    return fill_unwritten(result) if wish.fills else result


def zeros_like(
    input: Any, *, memory_format: memory_format | None = preserve_format, **options: Unpack[Options]
) -> Any:
    """Zeros of the input's size and dtype; they do not inherit `requires_grad`.

    Example:
        >>> import pullback as torch
        >>> torch.zeros_like(torch.ones(2, requires_grad=True))
        tensor([0., 0.])
    """
    return _made_like("zeros_like", input, False, options, memory_format)


def ones_like(
    input: Any, *, memory_format: memory_format | None = preserve_format, **options: Unpack[Options]
) -> Any:
    """Ones of the input's size and dtype; they do not inherit `requires_grad`.

    >>> import pullback as torch
    >>> torch.ones_like(torch.tensor([[1.0, 2.0]]))
    tensor([[1., 1.]])
    """
    return _made_like("ones_like", input, True, options, memory_format)


def full_like(
    input: Any,
    fill_value: Any,
    *,
    memory_format: memory_format | None = preserve_format,
    **options: Unpack[Options],
) -> Any:
    """One number in the input's size and dtype.

    Example:
        >>> import pullback as torch
        >>> torch.full_like(torch.ones(2), 7)
        tensor([7., 7.])
    """
    number = number_argument("full_like", "fill_value", fill_value)
    return _made_like("full_like", input, number, options, memory_format)


def _made_new(op: str, input: Any, shape: tuple[int, ...], number: Any, options: Options) -> Any:
    dtype = _dtype_like(op, input, options)
    result = _new(input, shape, _fitting(op, number, dtype), dtype)
    return result.requires_grad_() if options and options.get("requires_grad") else result


@method
def new_empty(self: Any, *sizes: Any, size: Any = None, **options: Unpack[Options]) -> Any:
    """As `torch.empty`, in this tensor's dtype unless another is given.

    >>> import pullback as torch
    >>> torch.tensor([1.0], dtype=torch.float64).new_empty(2).dtype
    torch.float64
    """
    result = _made_new("new_empty", self, shape_argument("new_empty", sizes, size), None, options)
    return fill_unwritten(result) if wish.fills else result


@method
def new_zeros(self: Any, *sizes: Any, size: Any = None, **options: Unpack[Options]) -> Any:
    """As `torch.zeros`, in this tensor's dtype unless another is given.

    >>> import pullback as torch
    >>> torch.tensor([1]).new_zeros(2)
    tensor([0, 0])
    """
    if self.__class__ is Tensor and self._node is None and not options and size is None:
        array = self._array
        usual = at_once(numpy.zeros, sizes, array.dtype) if type(array) is numpy.ndarray else None
        if usual is not None:
            return usual
    shape = shape_argument("new_zeros", sizes, size)
    return _made_new("new_zeros", self, shape, False, options)


@method
def new_ones(self: Any, *sizes: Any, size: Any = None, **options: Unpack[Options]) -> Any:
    """As `torch.ones`, in this tensor's dtype unless another is given.

    >>> import pullback as torch
    >>> torch.tensor([1]).new_ones(2)
    tensor([1, 1])
    """
    shape = shape_argument("new_ones", sizes, size)
    return _made_new("new_ones", self, shape, True, options)


@method
def new_full(self: Any, size: Any, fill_value: Any, **options: Unpack[Options]) -> Any:
    """As `torch.full`, in this tensor's dtype unless another is given.

    >>> import pullback as torch
    >>> torch.tensor([1.0]).new_full((2,), 7)
    tensor([7., 7.])
    """
    number = number_argument("new_full", "fill_value", fill_value)
    return _made_new("new_full", self, one_shape("new_full", size), number, options)


@method
def new_empty_strided(self: Any, size: Any, stride: Any, **options: Unpack[Options]) -> Tensor:
    """As `torch.empty_strided`, in this tensor's dtype unless another is given.

    >>> import pullback as torch
    >>> torch.tensor([1.0]).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    elsewhere = type(self._array) is not numpy.ndarray and self.device.type != "cpu"
    if elsewhere and options.get("device") is None:
        options["device"] = self.device
    dtype = _dtype_like("new_empty_strided", self, options)
    if (level := level_reading(self)) is not None:
        batch: Tensor = level.new_memory(self, tuple(size), tuple(stride), options)
        return batch
    array = _strided("new_empty_strided", size, stride, dtype)
    result: Tensor = made("new_empty_strided", array, options)
    return fill_unwritten(result) if wish.fills else result
