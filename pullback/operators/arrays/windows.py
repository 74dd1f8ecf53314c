"""Strided windows of arrays: what convolution and pooling slide over the last dimensions, and back.

A window is a grid of `kernel` points, `dilation` apart; windows start `stride` apart. Everything in
front of the windowed dimensions is carried along, so that one kernel serves channels, batches and
vmap.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy

from pullback.core import errors
from pullback.core.arrays import Array, Namespace
from pullback.core.tensor import Tensor
from pullback.operators.arrays.runs import put
from pullback.operators.arrays.strides import restrided

Sizes: TypeAlias = tuple[int, ...]
Pads: TypeAlias = tuple[tuple[int, int], ...]  # before and after, for each of the last dimensions

# Elements of copied windows that are held at once; more are worked through in blocks. Measured for
# kernels of 3: 16 images of 16 x 64 x 64 take 7.1 ms with 2**17, 8.2 with 2**18 and more, 10.7 with
# 2**13; two volumes of 16 x 32 x 32 x 32 take 18 ms up to 2**21, 26 ms all at once.
BLOCK = 1 << 18


# Options ------------------------------------------------------------------------------------------


def sizes(op: str, name: str, value: Any, dims: int) -> Sizes:
    """An option that is a number or a number for each dimension, as a tuple."""
    if type(value) is int:
        return (value,) * dims
    if not isinstance(value, Sequence) or isinstance(value, str):
        value = (value,)
    wrong = TypeError(f"{op}: {name} must be an int or {dims} of them, got {value!r}.")
    if any(isinstance(size, bool) for size in value):
        raise wrong
    try:
        checked = tuple(operator.index(size) for size in value)
    except TypeError:
        raise wrong from None
    if len(checked) == 1:
        return checked * dims
    if len(checked) != dims:
        raise RuntimeError(f"{op}: {name} must be one int or {dims} of them, got {checked}.")
    return checked


def positive(op: str, name: str, value: Any, dims: int) -> Sizes:
    """As `sizes`, all of them at least 1."""
    checked = sizes(op, name, value, dims)
    if min(checked) < 1:
        raise RuntimeError(f"{op}: {name} must be at least 1, got {checked}.")
    return checked


def check_tensor(op: str, input: Any, *ndims: int) -> None:
    """Refuse what is no tensor, or has none of these numbers of dimensions, if any are given."""
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor(op, "input", input)
    if ndims and input._array.ndim not in ndims:
        wanted = " or ".join(str(ndim) for ndim in ndims)
        raise RuntimeError(
            f"{op}: input must have {wanted} dimensions, got shape {tuple(input.shape)}."
        )


def check_not_empty(op: str, shape: Sizes, dims: int) -> None:
    """Refuse windows over nothing; a batch of no examples is fine."""
    if 0 in shape[-dims - 1 :]:
        raise RuntimeError(f"{op}: input of shape {shape} is empty; only the batch may be 0.")


def remembering(function: Any, options: list[Any]) -> Any:
    """A function with a cache, or the one behind it where an option is more than ints.

    A cache takes 2.0 for 2, which is refused, and takes no lists: those become tuples in `options`.
    """
    for number, option in enumerate(options):
        kind = type(option)
        if kind is int or option is None or kind is str:
            continue
        if kind is list:
            option = options[number] = tuple(option)
        elif kind is not tuple:
            return function.__wrapped__
        for size in option:
            if type(size) is not int:
                return function.__wrapped__
    return function


# Windows ------------------------------------------------------------------------------------------


def count(size: int, kernel: int, stride: int = 1, dilation: int = 1) -> int:
    """How many windows fit into `size`."""
    return (size - dilation * (kernel - 1) - 1) // stride + 1


def counts(size: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Sizes:
    """How many windows fit, for each dimension."""
    return tuple(map(count, size, kernel, stride, dilation))


@lru_cache(512)
def _strides_of_windows(strides: Sizes, stride: Sizes, dilation: Sizes) -> Sizes:
    steps = strides[-len(stride) :]
    return (
        *strides[: -len(stride)],
        *map(operator.mul, steps, dilation),
        *map(operator.mul, steps, stride),
    )


def windows(array: Array, kernel: Sizes, number: Sizes, stride: Sizes, dilation: Sizes) -> Array:
    """A view of shape `(..., *kernel, *number)`: each point of a window, for all windows."""
    shape = (*array.shape[: -len(kernel)], *kernel, *number)
    return restrided(array, shape, _strides_of_windows(array.strides, stride, dilation))


def points(
    kernel: Sizes, number: Sizes, stride: Sizes, dilation: Sizes
) -> Iterator[tuple[Sizes, tuple[Any, ...]]]:
    """Each point of a window with the index of its places in all windows."""
    for point in itertools.product(*map(range, kernel)):
        yield point, (..., *map(along, point, number, stride, dilation))


def along(point: int, number: int, stride: int, dilation: int) -> slice:
    """The places of one point in the windows of one dimension."""
    start = point * dilation
    return slice(start, start + max(number - 1, 0) * stride + min(number, 1), stride)


def add_windows(out: Array, parts: Array, kernel: Sizes, stride: Sizes, dilation: Sizes) -> None:
    """The adjoint of `windows`: add `parts` (..., *kernel, *number) up, each at its place."""
    dims = len(kernel)
    for point, place in points(kernel, parts.shape[-dims:], stride, dilation):
        out[place] += parts[(..., *point, *(slice(None),) * dims)]


# Padding ------------------------------------------------------------------------------------------


@lru_cache(512)
def _padding(shape: Sizes, pads: Pads) -> tuple[Sizes | None, Any, Any] | None:
    """The padded shape (None: nothing is added), where the array goes, and what is left of it."""
    if not any(map(any, pads)):
        return None
    dims = len(pads)
    old, lead = shape[-dims:], shape[:-dims]
    new = tuple(n + before + after for n, (before, after) in zip(old, pads, strict=True))
    target, source = [], []
    for n, size, (before, _) in zip(old, new, pads, strict=True):
        start = max(before, 0)
        stop = max(min(before + n, size), start)  # nothing is left where more is cut off than is
        target.append(slice(start, stop))
        source.append(slice(start - before, stop - before))
    grows = any(max(pair) > 0 for pair in pads)
    cuts = any(min(pair) < 0 for pair in pads)
    return (*lead, *new) if grows else None, (..., *target), (..., *source) if cuts else ...


def padded(xp: Namespace, array: Array, pads: Pads, value: Any = 0) -> Array:
    """`array` with `value` around its last dimensions; negative pads cut off. Unpadded as it is."""
    plan = _padding(array.shape, pads)
    if plan is None:
        return array
    shape, target, source = plan
    if shape is None:
        return array[source].copy()
    out = xp.zeros(shape, array.dtype) if value == 0 else xp.full(shape, value, array.dtype)
    put(out[target], array if source is ... else array[source])
    return out


def whole_size(size: Sizes, pads: Pads) -> Sizes:
    """The size with padding."""
    return tuple([n + before + after for n, (before, after) in zip(size, pads, strict=True)])


def inner(pads: Pads, size: Sizes) -> tuple[Any, ...]:
    """The index of what was padded."""
    return (..., *(slice(before, before + n) for (before, _), n in zip(pads, size, strict=True)))


def blocks(rows: int, size: int) -> Iterator[slice]:
    """Slices of the first dimension: as many rows of `size` elements as may be held at once."""
    step = max(BLOCK // max(size, 1), 1)
    for start in range(0, rows, step):
        yield slice(start, start + step)


def pieces(rows: int, lines: int, size: int) -> Iterator[tuple[slice, slice]]:
    """As `blocks` for rows of `lines` times `size` elements; a long row is taken line by line."""
    if lines * size <= BLOCK:
        for block in blocks(rows, lines * size):
            yield block, slice(0, lines)
        return
    for row in range(rows):
        for part in blocks(lines, size):
            yield slice(row, row + 1), slice(part.start, min(part.stop, lines))


def volume(size: Sizes) -> int:
    """The number of elements."""
    return math.prod(size)


@lru_cache(64)
def _few_starts(rows: int, length: int) -> Array:
    return numpy.arange(rows) * length


def starts_of(rows: int, length: int) -> Array:
    """Where each of several rows of `length` elements begins; kept where there are few."""
    return (_few_starts if rows <= 1024 else _few_starts.__wrapped__)(rows, length)
