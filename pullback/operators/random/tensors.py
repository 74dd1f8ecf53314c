"""Tensors of random numbers, from a size or like another tensor."""

from __future__ import annotations

import functools
import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core import errors, origin
from pullback.core.arrays import F32, LIBRARIES, Array
from pullback.core.captured import stamped
from pullback.core.dtype import NARROW, OF_NUMBERS, NumpyDtype, default, from_numpy_dtype, int64
from pullback.core.layout import memory_format, preserve_format
from pullback.core.mode import get_mode, settle
from pullback.core.ports import ports
from pullback.core.tensor import Tensor, blanks, wrap
from pullback.core.version import UNWRITTEN
from pullback.operators.create.factory import (
    Options,
    Unpack,
    allocated,
    checked,
    made,
    one_shape,
    plain_tensor,
    shape_argument,
    undisturbed,
)
from pullback.operators.create.sizes import empty_like
from pullback.operators.declare import quick
from pullback.operators.options import as_int
from pullback.operators.random import samplers as draw
from pullback.operators.random.generator import Generator, default_generator, drawn, drawn_like

FOUND_IN = {"torch": "rand rand_like randint randint_like randn randn_like randperm"}

_UNSET: Any = object()
Fill = Callable[[Any, Array], None]


def source_of(op: str, generator: Any) -> Any:
    """The stream behind `generator`, or behind the default one."""
    settle()
    if generator is None:
        return default_generator.draw_from()
    if not isinstance(generator, Generator):
        raise TypeError(
            f"{op}(): generator must be a torch.Generator, got {type(generator).__name__}."
        )
    return generator.draw_from()


def needs(op: str, dtype: NumpyDtype, kinds: str) -> None:
    """Refuse dtypes whose kind is not among `kinds`."""
    if dtype.kind not in kinds or (
        dtype in NARROW and (dtype.itemsize == 1 or dtype.char == OF_NUMBERS)
    ):
        raise NotImplementedError(f"{op}(): not possible in {from_numpy_dtype(dtype)}.")


# From a size ------------------------------------------------------------------------------------


def sized(
    op: str, shape: tuple[int, ...], fill: Fill, dtype: NumpyDtype, given: tuple[Any, Any, Options]
) -> Tensor:
    """A new tensor, or `out`, that `fill` filled; `given` is generator, `out` and options."""
    mode = settle()
    if mode.levels:
        refuse_out(op, given[1])
    if mode.levels or mode.tracing is not None:
        return drawn(
            op,
            lambda: _filled(op, shape, fill, dtype, given),
            lambda front: _filled(op, (*front, *shape), fill, dtype, given),
        )
    return _filled(op, shape, fill, dtype, given)


def refuse_out(op: str, out: Any) -> None:
    """Inside vmap: examples may draw numbers of their own, for which `out` has no room."""
    if out is not None:
        raise RuntimeError(f"{op}: out= cannot be used inside vmap; use the tensor returned.")


def _filled(
    op: str, shape: tuple[int, ...], fill: Fill, dtype: NumpyDtype, given: tuple[Any, Any, Options]
) -> Tensor:
    generator, out, options = given
    source = default_generator.draw_from() if generator is None else source_of(op, generator)
    if out is None and not options and dtype is default.numpy:  # the usual call, in few steps
        try:
            array = numpy.empty(shape, dtype)
        except (MemoryError, ValueError):
            array = allocated(op, numpy.empty, shape, dtype)  # says what is wrong
        fill(source, array)
        return stamped(wrap(array))
    array = allocated(op, numpy.empty, shape, dtype)
    if type(array) is numpy.ndarray or dtype in NARROW:
        fill(source, array)
    elif type(array) in LIBRARIES:
        ports.filled_there(array, fill, generator)
    return made(op, array, options, out)


@quick
def rand(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    out: Any = None,
    **options: Unpack[Options],
) -> Tensor:
    """Uniform random numbers from 0 (included) to 1 (excluded).

    Example:
        >>> import pullback as torch
        >>> x = torch.rand(2, 3)
        >>> x.shape, bool((x < 1).all())
        (torch.Size([2, 3]), True)
    """
    shape = shape_argument("rand", sizes, size)
    if not options and out is generator is None and default.numpy is F32 and undisturbed():
        stream = default_generator._stream or default_generator.draw_from()
        few = stream.few_floats(shape)
        if few is not None:
            return plain_tensor(few)
    dtype = checked("rand", options, default.numpy, out)
    needs("rand", dtype, "fcVW")
    return sized("rand", shape, draw.uniform, dtype, (generator, out, options))


@quick
def randn(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    out: Any = None,
    **options: Unpack[Options],
) -> Tensor:
    """Random numbers from the normal distribution of mean 0 and variance 1.

    Example:
        >>> import pullback as torch
        >>> torch.randn(2, 3).shape
        torch.Size([2, 3])
    """
    shape: tuple[int, ...] = sizes
    if len(sizes) == 1 and sizes[0].__class__ is int and size is None and sizes[0] >= 0:
        count = sizes[0]
    else:
        shape = shape_argument("randn", sizes, size)
        count = math.prod(shape)
    if not options and out is generator is None and count < draw.LONG and undisturbed():
        stream = default_generator._stream or default_generator.draw_from()
        few = stream.normals(count).astype(default.numpy)
        if len(shape) != 1:
            if len(shape) > 64:
                raise errors.too_many_dimensions("randn")
            few = few.reshape(shape)
        tensor = next(blanks)  # `plain_tensor` in line
        tensor._array = few
        tensor._node = None
        tensor._cell = UNWRITTEN
        return tensor
    dtype = checked("randn", options, default.numpy, out)
    if count:  # as in torch, where it is asked for when the first number is drawn
        needs("randn", dtype, "fcVW")
    return sized("randn", shape, draw.normal, dtype, (generator, out, options))


@quick
def randint(
    *bounds: Any,
    low: Any = _UNSET,
    high: Any = _UNSET,
    size: Any = _UNSET,
    generator: Generator | None = None,
    out: Any = None,
    **options: Unpack[Options],
) -> Tensor:
    """Random integers from `low` (0 if not given) to `high` (excluded).

    Called as `randint(high, size)` or `randint(low, high, size)`.

    Example:
        >>> import pullback as torch
        >>> torch.randint(3, 4, (2,))
        tensor([3, 3])
    """
    if not options and out is generator is None and low is high is size is _UNSET:
        few = _few_integers(bounds)
        if few is not None:
            return few
    named = {"low": low, "high": high, "size": size}
    given = _by_name("randint", bounds, named, ("low", "high", "size"), ("high", "size"))
    shape = one_shape("randint", given["size"])
    dtype = checked("randint", options, int64.numpy, out)
    first, last = integer_bounds("randint", given.get("low", 0), given["high"], dtype)
    fill = functools.partial(draw.integers, low=first, high=last)
    return sized("randint", shape, fill, dtype, (generator, out, options))


def _few_integers(bounds: tuple[Any, ...]) -> Tensor | None:
    """What `randint` gives for plain numbers and a small size; None for all else."""
    if len(bounds) not in (2, 3):
        return None
    low, high, size = bounds if len(bounds) == 3 else (0, *bounds)
    if not (type(low) is type(high) is int and type(size) is tuple and low < high):
        return None
    if not -draw.WIDE < low < high < draw.WIDE or high - low >= draw.WIDE or not undisturbed():
        return None
    count = 1
    for length in size:
        if type(length) is not int or length < 0:
            return None
        count *= length
    if count > _FEW:
        return None
    stream = default_generator._stream or default_generator.draw_from()
    return plain_tensor(draw.few_integers(stream, size, count, low, high))


_FEW = 1000  # up to so many numbers the steps around them take longer than the draw


def _by_name(
    op: str,
    positional: tuple[Any, ...],
    named: dict[str, Any],
    all_names: tuple[str, ...],
    needed: tuple[str, ...],
) -> dict[str, Any]:
    """Arguments by name; positional ones fill the needed names if they are just enough for them."""
    given = {name: value for name, value in named.items() if value is not _UNSET}
    open_names = [name for name in needed if name not in given]
    names = tuple(open_names) if len(positional) == len(open_names) else all_names
    taken = dict(zip(names, positional, strict=False))
    if len(positional) > len(names) or taken.keys() & given.keys():
        raise TypeError(f"{op}() takes ({', '.join(needed)}) or ({', '.join(all_names)}).")
    given |= taken
    if missing := [name for name in needed if name not in given]:
        raise TypeError(f"{op}() misses its argument {missing[0]!r}.")
    return given


def integer_bounds(op: str, low: Any, high: Any, dtype: NumpyDtype) -> tuple[int, int]:
    """Both bounds as ints that the dtype can hold."""
    if type(low) is type(high) is int and low < high:
        limits = _held_by(dtype)
        if limits is not None and limits[0] <= low and high - 1 <= limits[1] and high < 2**63:
            return low, high
    for name, value in (("low", low), ("high", high)):
        if isinstance(value, float) or not hasattr(value, "__index__"):
            raise errors.not_an_int(op, name, value)
    first, last = operator.index(low), operator.index(high)
    if first >= last:
        raise RuntimeError(f"{op}(): no integer is at least {first} and less than {last}.")
    if last >= 2**63 and dtype.kind != "u":
        raise ValueError(f"{op}(): high={last} does not fit 64 bits.")
    if dtype.kind == "c":
        raise RuntimeError(f"{op}(): not possible in {from_numpy_dtype(dtype)}.")
    limits = (0, 1) if dtype.kind == "b" else None
    if dtype.kind in "iu":
        limits = (int(numpy.iinfo(dtype).min), int(numpy.iinfo(dtype).max))
    if limits and (first < limits[0] or last - 1 > limits[1]):
        raise RuntimeError(
            f"{op}(): integers from {first} to {last - 1} do not fit {from_numpy_dtype(dtype)}."
        )
    if limits is None and max(abs(first), abs(last - 1)) > exact_integers(dtype):
        warnings.warn(
            f"{op}(): {from_numpy_dtype(dtype)} cannot tell all integers from {first} to "
            f"{last - 1} apart; the numbers are rounded.",
            UserWarning,
            stacklevel=origin.stacklevel(),
        )
    return first, last


@functools.cache
def _held_by(dtype: NumpyDtype) -> tuple[int, int] | None:
    """The integers that a dtype holds all of; None for those that hold none."""
    if dtype.kind in "iu":
        return int(numpy.iinfo(dtype).min), int(numpy.iinfo(dtype).max)
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind == "c":
        return None
    return -exact_integers(dtype), exact_integers(dtype)


def exact_integers(dtype: NumpyDtype) -> int:
    """Up to which number a floating-point dtype holds every integer."""
    return {"float64": 2**53, "float32": 2**24, "float16": 2**11}.get(dtype.name, 2**8)


@quick
def randperm(
    n: int, *, generator: Generator | None = None, out: Any = None, **options: Unpack[Options]
) -> Tensor:
    """The integers from 0 up to but without `n`, in random order.

    Example:
        >>> import pullback as torch
        >>> sorted(torch.randperm(4).tolist())
        [0, 1, 2, 3]
    """
    if type(n) is int and n >= 0 and not options and out is generator is None and undisturbed():
        try:
            stream = default_generator._stream or default_generator.draw_from()
            return plain_tensor(draw.permutation(stream, n))
        except MemoryError as error:
            raise errors.too_large("randperm", error) from None
    (count,) = shape_argument("randperm", (as_int(n, "randperm", "n"),))
    dtype = checked("randperm", options, int64.numpy, out)
    needs("randperm", dtype, "iufV")
    if count:
        largest = numpy.iinfo(dtype).max if dtype.kind in "iu" else exact_integers(dtype)
        if count - 1 > largest:
            raise RuntimeError(
                f"randperm(): numbers up to {count - 1} do not fit {from_numpy_dtype(dtype)}."
            )

    def permute(source: Any, array: Array) -> None:
        array[...] = draw.permutation(source, count)

    def draw_once() -> Tensor:
        array = allocated("randperm", numpy.empty, (count,), dtype)
        if type(array) in LIBRARIES:
            ports.filled_there(array, permute, generator)
        elif type(array) is numpy.ndarray:
            permute(source_of("randperm", generator), array)
        return made("randperm", array, options, out)

    if get_mode().levels:
        refuse_out("randperm", out)
    return drawn("randperm", draw_once)


# Like another tensor ----------------------------------------------------------------------------


def _drawn_like(
    op: str, input: Any, fill: Fill, kinds: str, generator: Any, options: dict[str, Any]
) -> Tensor:
    mode = get_mode()
    if mode.tracing is not None and not mode.levels:  # drawn anew in each run of the program
        like = wrap(numpy.empty_like(input._array))
        return drawn(op, lambda: _drawn_like(op, like, fill, kinds, generator, options))
    if mode.levels:
        return drawn_like(
            op, input, lambda like: _drawn_like(op, like, fill, kinds, generator, options)
        )
    result: Tensor = empty_like(input, **options)
    if result._array.size or fill is not draw.normal:  # as in randn
        needs(op, result._array.dtype, kinds)
    if type(result._array) is numpy.ndarray:
        fill(source_of(op, generator), result._array)
    elif type(result._array) in LIBRARIES:
        ports.filled_there(result._array, fill, generator)
    return result


def _simple(input: Any, dtype: NumpyDtype | None) -> tuple[int, ...] | None:
    """The shape of a plain tensor of real numbers without gaps; None for all else."""
    if input.__class__ is not Tensor or not undisturbed():
        return None
    array = input._array
    if type(array) is not numpy.ndarray or array.dtype.kind != "f":
        return None
    wanted = dtype is None or array.dtype is dtype
    return array.shape if wanted and array.flags.c_contiguous else None


def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    memory_format: memory_format | None = preserve_format,
    **options: Unpack[Options],
) -> Tensor:
    """As `rand`, in the input's size, dtype and order of strides.

    >>> import pullback as torch
    >>> torch.rand_like(torch.zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    if not options and generator is None and memory_format is preserve_format:
        shape = _simple(input, F32)
        if shape is not None:
            stream = default_generator._stream or default_generator.draw_from()
            few = stream.few_floats(shape)
            if few is not None:
                return plain_tensor(few)
    kept = {"memory_format": memory_format, **options}
    return _drawn_like("rand_like", input, draw.uniform, "fcVW", generator, kept)


def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    memory_format: memory_format | None = preserve_format,
    **options: Unpack[Options],
) -> Tensor:
    """As `randn`, in the input's size, dtype and order of strides.

    >>> import pullback as torch
    >>> torch.randn_like(torch.zeros(2, 3)).shape
    torch.Size([2, 3])
    """
    if not options and generator is None and memory_format is preserve_format:
        shape = _simple(input, None)
        if shape is not None and (count := math.prod(shape)) < draw.LONG:
            stream = default_generator._stream or default_generator.draw_from()
            return plain_tensor(stream.normals(count).astype(input._array.dtype).reshape(shape))
    kept = {"memory_format": memory_format, **options}
    return _drawn_like("randn_like", input, draw.normal, "fcVW", generator, kept)


def randint_like(
    input: Tensor,
    *bounds: Any,
    low: Any = _UNSET,
    high: Any = _UNSET,
    generator: Generator | None = None,
    memory_format: memory_format | None = preserve_format,
    **options: Unpack[Options],
) -> Tensor:
    """As `randint`, in the input's size, dtype and order of strides.

    >>> import pullback as torch
    >>> torch.randint_like(torch.zeros(2, 3), 10).shape
    torch.Size([2, 3])
    """
    given = _by_name("randint_like", bounds, {"low": low, "high": high}, ("low", "high"), ("high",))
    kept = {"memory_format": memory_format, **options}

    def fill(source: Any, array: Array) -> None:
        bounds = integer_bounds("randint_like", given.get("low", 0), given["high"], array.dtype)
        draw.integers(source, array, *bounds)

    return _drawn_like("randint_like", input, fill, "biufcV", generator, kept)
