"""Choosing elements by a mask: where, masked_fill, triangles."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.addresses import as_indices
from pullback.core.arrays import F32, F64, number_array
from pullback.core.device import META
from pullback.core.dtype import from_numpy_dtype
from pullback.core.promotion import result_dtype
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.choosing import FEW, choose, kept
from pullback.operators.arrays.direct import putmask
from pullback.operators.arrays.direct import where as where_of
from pullback.operators.arrays.formats import in_order_of
from pullback.operators.arrays.row_major import in_order, row_major
from pullback.operators.batching import aligned, ndim_of, one_tensor
from pullback.operators.conditions import above, at_least, at_most, below, host, says
from pullback.operators.declare import Array, Namespace, Op, kernel, linear, method, primitive
from pullback.operators.options import as_int
from pullback.operators.running.writes import number_array as checked_number
from pullback.operators.tensor.convert import astype

FOUND_IN = {
    "torch": "where",
}

_BOOL = numpy.dtype(bool)
_NUMBERS = frozenset((int, float))


def _where_tangent(d_input: Any, d_other: Any, condition: Any) -> Any:
    return _where(condition, 0 if d_input is None else d_input, 0 if d_other is None else d_other)


@primitive(
    casts_out=False,
    batch=aligned,
    input=lambda g, condition: _where(condition, g, 0),
    other=lambda g, condition: _where(condition, 0, g),
    jvp=_where_tangent,
    node="WhereBackward0",
    numbers=True,
    aten="where.self",
    meta="lengths kept",
    inline="where_of(a0, a1, a2) if host_array is type(a0) is type(a1) is type(a2) "
    "and a0.size < FEW else forward(numpy, a0, a1, a2)",
)
def _where(xp: Namespace, condition: Array, input: Array, other: Array) -> Array:
    return xp.where(condition, input, other)


_plain = says("ndarray is type(condition) is type(input) is type(other)", ndarray=numpy.ndarray)
_many = says("condition_dtype is BOOL", BOOL=_BOOL) & at_least(FEW, "condition_size")


@kernel(_where, when=_plain & below(FEW, "condition_size"))
def _few(condition: Array, input: Array, other: Array) -> Array:
    return where_of(condition, input, other)


def _laid(choice: Callable[..., Array], condition: Array, *others: Array) -> Array:
    """What a choice by elements gives, lying as the condition does where nothing broadcasts."""
    row_by_row = condition.flags.c_contiguous
    if row_by_row or any(one.shape not in ((), condition.shape) for one in others):
        return choice(condition, *others)
    return in_order_of(choice, condition, *others)


@kernel(_where, when=_plain & _many & says("input_dtype is other_dtype"))
def _by_bits(condition: Array, input: Array, other: Array) -> Array:
    return _laid(partial(choose, numpy), condition, input, other)


@kernel(_where, when=host & _many & says("type(other) is int", "other == 0"))  # as rules have it
def _or_zero(xp: Namespace, condition: Array, input: Array) -> Array:
    return _laid(partial(kept, xp), condition, input)


@kernel(_where, when=host & _many & says("type(input) is int", "input == 0"))
def _zero_or(xp: Namespace, condition: Array, other: Array) -> Array:
    return _laid(partial(kept, xp), ~condition, other)


def where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """Elements of `input` where `condition` is true, of `other` elsewhere.

    With a condition alone, the indices where it is true, as from `nonzero(as_tuple=True)`.

    >>> import pullback as torch
    >>> torch.where(torch.tensor([True, False]), torch.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if type(condition) is Tensor and condition._array.dtype is _BOOL and out is None:
        both = input.__class__ is Tensor and other.__class__ is Tensor
        if both and input._array.dtype is other._array.dtype:
            return _where(condition, input, other)
        pair = _plain_pair(input, other)
        if pair is not None:
            return _where(condition, *pair)
    if isinstance(condition, bool):
        raise errors.not_a_tensor("where", "condition", condition)
    if not isinstance(condition, Tensor):
        return _where(condition, input, other)
    if input is None and other is None:
        if condition.device is META:
            raise errors.no_data("where() of a condition alone")
        found = numpy.atleast_1d(condition._array).nonzero()
        return tuple(
            [wrap(as_indices(places.copy())) for places in found]
        )  # not views of one array
    if condition._array.dtype.kind not in "bu":
        raise RuntimeError(
            f"where: the condition must be a bool tensor, got {condition.dtype}; compare first."
        )
    input, other = _promoted(input, other)
    if out is None:
        return _where(condition, input, other)
    return _where(condition, input, other, out=out)


def _where_method(input: Any, condition: Any, other: Any) -> Any:
    """Elements of this tensor where `condition` holds, of `other` elsewhere.

    >>> import pullback as torch
    >>> torch.tensor([1, 2]).where(torch.tensor([True, False]), 9)
    tensor([1, 9])
    """
    return where(condition, input, other)


_where_method.__name__ = _where_method.__qualname__ = "where"
method(_where_method)


def _plain_pair(input: Any, other: Any) -> tuple[Any, Any] | None:
    """Two tensors of one dtype, or one of floats and a number made its like; else None."""
    if type(input) is not Tensor:
        pair = _plain_pair(other, input) if type(other) is Tensor else None
        return None if pair is None else (pair[1], pair[0])
    dtype = input._array.dtype
    if type(other) is Tensor:
        return (input, other) if other._array.dtype is dtype else None
    if type(other) in _NUMBERS and (dtype is F32 or dtype is F64):
        return input, wrap(number_array(other, dtype))
    return None


def _promoted(*values: Any) -> list[Any]:
    """Tensors and numbers as tensors of torch's common dtype."""
    for value in values:
        if not isinstance(value, Tensor | numbers.Number):
            raise TypeError(
                "where(): `input` and `other` must be Tensors or numbers, got "
                f"{type(value).__name__}."
            )
    wanted = result_dtype([getattr(value, "_array", value) for value in values])
    return [_brought_to(value, wanted) for value in values]


def _brought_to(value: Any, dtype: Any) -> Any:
    """A tensor of that dtype."""
    if not isinstance(value, Tensor):
        return wrap(numpy.array(value, dtype))
    return value if value._array.dtype is dtype else astype(value, dtype)


def _fill_batch(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """A value of each example's own is put in by `where`."""
    value, bdim = split["value"]
    if bdim is None:
        return aligned(op, size, split, options)
    value = (value.to(split["input"][0].dtype), bdim)
    return aligned(_where.op, size, {  # type: ignore[attr-defined]  # declared
        "condition": split["mask"], "input": value, "other": split["input"]
    }, {})  # fmt: skip


def _fill_tangent(d_input: Any, d_value: Any, input: Any, mask: Any) -> Any:
    d_input = input * 0 if d_input is None else d_input
    return masked_fill(d_input, mask, 0 if d_value is None else d_value)


@primitive(
    batch=_fill_batch,
    input=lambda g, mask: masked_fill(g, mask, 0),
    value=lambda g, mask: _where(mask, g, 0),
    jvp=_fill_tangent,
    inplace=True,
    has_out=False,
    numbers="value",
    aten="masked_fill.Tensor|Scalar:value",
    meta="lengths kept",
)
def masked_fill(xp: Namespace, input: Array, mask: Array, value: Array) -> Array:
    """A copy of `input` with `value`, a number or 0-d tensor, where `mask` is true.

    >>> import pullback as torch
    >>> torch.masked_fill(torch.tensor([1.0, 2.0]), torch.tensor([True, False]), 9)
    tensor([9., 2.])
    """
    if mask.dtype is not _BOOL:
        raise RuntimeError(
            f"masked_fill: the mask must be a bool tensor, got {from_numpy_dtype(mask.dtype)}."
        )
    dtype = input.dtype
    if getattr(value, "dtype", None) is dtype and not value.ndim:
        if numpy.ndarray is type(mask) is type(value) is type(input):
            filled = where_of(mask, value, input)
        else:
            filled = xp.where(mask, value, input)
        return filled if filled.flags.c_contiguous else row_major(filled)
    if getattr(value, "ndim", 0):
        raise RuntimeError(
            f"masked_fill: value must be a number or a 0-d tensor, got shape {value.shape}; use "
            "where()."
        )
    if not hasattr(value, "dtype"):
        return in_order(xp.where(mask, checked_number("masked_fill", value, dtype), input))
    if value.dtype.kind in "cW" and dtype.kind not in "cW":
        raise RuntimeError(
            f"masked_fill: a complex value cannot fill a tensor of {from_numpy_dtype(dtype)}."
        )
    return in_order(xp.where(mask, xp.asarray(value).astype(dtype), input))


# Triangles ---------------------------------------------------------------------------------------


def _of_matrices(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """Examples that are rows make no matrix together."""
    if ndim_of(split["input"]) < 2:
        raise RuntimeError(f"{op.name}: needs at least 2 dimensions, got 1 or none inside vmap.")
    return one_tensor(op, size, split, options)


@linear(
    input=lambda g, diagonal: tril(g, diagonal),
    batch=_of_matrices,
    inplace=True,
    meta="lengths kept",
)
def tril(xp: Namespace, input: Array, diagonal: int = 0) -> Array:
    """The lower triangle of the last two dimensions; zeros above.

    >>> import pullback as torch
    >>> torch.tril(torch.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return _triangle(xp, "tril", input, diagonal)


@linear(
    input=lambda g, diagonal: triu(g, diagonal),
    batch=_of_matrices,
    inplace=True,
    meta="lengths kept",
)
def triu(xp: Namespace, input: Array, diagonal: int = 0) -> Array:
    """The upper triangle of the last two dimensions; zeros below.

    >>> import pullback as torch
    >>> torch.triu(torch.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return _triangle(xp, "triu", input, diagonal)


def _triangle(xp: Namespace, op: str, input: Array, diagonal: int) -> Array:
    if input.ndim < 2:
        raise RuntimeError(f"{op}: needs at least 2 dimensions, got shape {input.shape}.")
    out = xp.zeros(input.shape, input.dtype)
    mask = _mask(xp, *input.shape[-2:], _inside(op, diagonal, *input.shape[-2:]), op == "triu")
    xp.copyto(out, input, where=mask)
    return out


def _inside(op: str, diagonal: Any, height: int, width: int) -> int:
    """The diagonal; beyond the matrix, where there is nothing more to choose, the nearest."""
    number = diagonal if type(diagonal) is int else as_int(diagonal, op, "diagonal")
    return number if -height <= number <= width else max(-height, min(number, width))


_ROWS = 64  # of a large matrix at a time: a mask that stays in cache, and the rest in one piece
_matrices = says("@_ndim > 1")
_on_host = host & says("type(@) is ndarray", ndarray=numpy.ndarray) & _matrices
_small = _on_host & at_most(_ROWS, "@_shape[-1]") & at_most(_ROWS, "@_shape[-2]")
_large = _matrices & (above(_ROWS, "@_shape[-2]") | above(_ROWS, "@_shape[-1]"))


def _few_of(op: str, input: Array, diagonal: int) -> Array:
    out = numpy.zeros(input.shape, input.dtype)
    height, width = input.shape[-2:]
    if type(diagonal) is not int or not -height <= diagonal <= width:
        diagonal = _inside(op, diagonal, height, width)
    mask = _mask(numpy, height, width, diagonal, op == "triu")
    if input.ndim == 2:
        putmask(out, mask, input)
    else:
        numpy.copyto(out, input, where=mask)
    return out


@kernel(tril, when=_small)
def _few_below(input: Array, diagonal: int) -> Array:
    return _few_of("tril", input, diagonal)


@kernel(triu, when=_small)
def _few_above(input: Array, diagonal: int) -> Array:
    return _few_of("triu", input, diagonal)


@kernel(tril, when=_large)
def _below_by_rows(xp: Namespace, input: Array, diagonal: int) -> Array:
    return _by_rows(xp, "tril", input, diagonal)


@kernel(triu, when=_large)
def _above_by_rows(xp: Namespace, input: Array, diagonal: int) -> Array:
    return _by_rows(xp, "triu", input, diagonal)


def _by_rows(xp: Namespace, op: str, input: Array, diagonal: int) -> Array:
    height, width = input.shape[-2:]
    diagonal, upper = _inside(op, diagonal, height, width), op == "triu"
    out = xp.zeros(input.shape, input.dtype)
    for start in range(0, height, _ROWS):
        stop = min(start + _ROWS, height)
        # Columns before `near` are on one side of the diagonal in all of these rows, those from
        # `far` on are on the other; the diagonal belongs to both triangles.
        first = diagonal if upper else diagonal + 1
        near, far = (min(max(row + first, 0), width) for row in (start, stop - 1))
        rows = (..., slice(start, stop))
        clear = (*rows, slice(far, None) if upper else slice(0, near))
        mixed = (*rows, slice(near, far))
        out[clear] = input[clear]
        mask = _mask(xp, stop - start, far - near, start + diagonal - near, upper)
        xp.copyto(out[mixed], input[mixed], where=mask)
    return out


@lru_cache(64)
def _mask(xp: Namespace, height: int, width: int, diagonal: int, upper: bool) -> Array:
    """Where a triangle is."""
    rows, columns = xp.arange(height)[:, None] + diagonal, xp.arange(width)
    return rows <= columns if upper else rows >= columns
