"""Choosing elements by a mask: where, masked_fill, triangles."""

from __future__ import annotations

import numbers
from typing import Any

import numpy

from pullback.core.dtype import from_numpy_dtype
from pullback.core.promotion import result_dtype
from pullback.core.tensor import Tensor, wrap
from pullback.operators.batching import aligned
from pullback.operators.convert import astype
from pullback.operators.declare import Array, Namespace, Op, linear, method, primitive

__all__ = ["masked_fill", "tril", "triu", "where"]


def _where_tangent(d_input: Any, d_other: Any, condition: Any) -> Any:
    return _where(condition, 0 if d_input is None else d_input, 0 if d_other is None else d_other)


@primitive(
    batch=aligned,
    input=lambda g, condition: _where(condition, g, 0),
    other=lambda g, condition: _where(condition, 0, g),
    jvp=_where_tangent,
    node="WhereBackward0",
    numbers=True,
)
def _where(xp: Namespace, condition: Array, input: Array, other: Array) -> Array:
    return xp.where(condition, input, other)


def where(condition: Any, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """Elements of `input` where `condition` holds, of `other` elsewhere; alone.

    The places it holds.

    >>> import pullback as torch
    >>> torch.where(torch.tensor([True, False]), torch.tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])

    """
    if not isinstance(condition, Tensor):
        return _where(condition, input, other)
    if input is None and other is None:
        return tuple(wrap(places) for places in numpy.atleast_1d(condition._array).nonzero())
    if condition._array.dtype.kind not in "bu":
        raise RuntimeError(
            f"where: the condition must be a bool tensor, got {condition.dtype}; compare first."
        )
    input, other = _promoted(input, other)
    if out is None:
        return _where(condition, input, other)
    return _where(condition, input, other, out=out)


def _where_method(input: Any, condition: Any, other: Any) -> Any:
    """Elements of this tensor where `condition` holds, of `other` elsewhere."""
    return where(condition, input, other)


_where_method.__name__ = _where_method.__qualname__ = "where"
method(_where_method)


def _promoted(*values: Any) -> list[Any]:
    """Tensors and numbers as tensors of torch's common dtype."""
    for value in values:
        if not isinstance(value, Tensor | numbers.Number):
            raise TypeError(
                "where(): `input` and `other` must be Tensors or numbers, got "
                f"{type(value).__name__}."
            )
    wanted = result_dtype([getattr(value, "_array", value) for value in values])
    return [
        astype(value, wanted) if isinstance(value, Tensor) else wrap(numpy.array(value, wanted))
        for value in values
    ]


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
    numbers=True,
)
def masked_fill(xp: Namespace, input: Array, mask: Array, value: Array) -> Array:
    """`input` with `value`, a number or 0-d tensor, where `mask` holds."""
    if mask.dtype.kind != "b":
        raise RuntimeError(
            f"masked_fill: the mask must be a bool tensor, got {from_numpy_dtype(mask.dtype)}."
        )
    if getattr(value, "ndim", 0):
        raise RuntimeError(
            f"masked_fill: value must be a number or a 0-d tensor, got shape {value.shape}; use "
            "where()."
        )
    is_complex = isinstance(value, complex) or getattr(value, "dtype", mask.dtype).kind == "c"
    if is_complex and input.dtype.kind != "c":
        raise RuntimeError(
            f"masked_fill: a complex value cannot fill a tensor of {from_numpy_dtype(input.dtype)}."
        )
    return xp.where(mask, xp.asarray(value).astype(input.dtype), input)


@linear(input=lambda g, diagonal: tril(g, diagonal), inplace=True)
def tril(xp: Namespace, input: Array, diagonal: int = 0) -> Array:
    """The lower triangle of the last two dimensions; zeros above."""
    return xp.tril(_matrices("tril", input), diagonal)


@linear(input=lambda g, diagonal: triu(g, diagonal), inplace=True)
def triu(xp: Namespace, input: Array, diagonal: int = 0) -> Array:
    """The upper triangle of the last two dimensions; zeros below."""
    return xp.triu(_matrices("triu", input), diagonal)


def _matrices(op: str, input: Array) -> Array:
    if input.ndim < 2:
        raise RuntimeError(f"{op}: needs at least 2 dimensions, got shape {input.shape}.")
    return input
