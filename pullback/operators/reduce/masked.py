"""Reductions and normalisations of the elements that a mask selects.

Each fills what is left out with the value that does not matter to it, and is then the operator
itself. Where nothing is selected the result is that value: 0 of a sum, minus infinity of a
maximum; the mean, the variance and the median of nothing are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.operators.indexing.selection import where
from pullback.operators.nn.activation.softmax import log_softmax as _log_softmax
from pullback.operators.nn.activation.softmax import softmax as _softmax
from pullback.operators.options import as_dims
from pullback.operators.pointwise.arithmetic import conj, true_divide
from pullback.operators.pointwise.comparison import isnan
from pullback.operators.pointwise.complex import real
from pullback.operators.pointwise.exponentials import logaddexp as _logaddexp
from pullback.operators.pointwise.extrema import clamp_min
from pullback.operators.pointwise.powers import sqrt
from pullback.operators.reduce.extremes import amax as _amax
from pullback.operators.reduce.extremes import amin as _amin
from pullback.operators.reduce.extremes import argmax as _argmax
from pullback.operators.reduce.extremes import argmin as _argmin
from pullback.operators.reduce.norms import vector_norm
from pullback.operators.reduce.order_statistics import nanmedian as _nanmedian
from pullback.operators.reduce.scan import cumprod as _cumprod
from pullback.operators.reduce.scan import cumsum as _cumsum
from pullback.operators.reduce.sums import logsumexp as _logsumexp
from pullback.operators.reduce.sums import prod as _prod
from pullback.operators.reduce.sums import sum as _sum
from pullback.operators.reduce.truth import any
from pullback.operators.shape.reshaping import broadcast_to
from pullback.operators.tensor.convert import astype

FOUND_IN = {
    "masked": """
        amax amin argmax argmin cumprod cumsum log_softmax logaddexp logsumexp mean median
        norm normalize prod softmax softmin std sum var
    """
}

# What the functions share -------------------------------------------------------------------------


def _in_dtype(input: Any, dtype: Any) -> Any:
    return input if dtype is None else astype(input, dtype)


def _widened(input: Any, dtype: Any) -> Any:
    """Sums and products of whole numbers are int64."""
    if dtype is None and input._array.dtype.kind in "biu":
        return astype(input, numpy.dtype("int64"))
    return _in_dtype(input, dtype)


def _fitted(op: str, input: Any, mask: Any) -> Any:
    """The mask in the shape of the input; what is not zero counts as True."""
    if mask._array.dtype.kind != "b":
        mask = mask != 0
    if mask.ndim > input.ndim:
        raise IndexError(
            f"masked.{op}: the mask has {mask.ndim} dimensions, more than the input's {input.ndim} "
            f"(shapes {tuple(mask.shape)} and {tuple(input.shape)})."
        )
    return broadcast_to(mask, tuple(input.shape)) if mask.shape != input.shape else mask


def _filled(op: str, input: Any, mask: Any, left_out: Callable[[Any], float]) -> Any:
    """What the mask leaves out replaced by a value that does not matter to the operator."""
    if mask is None:
        return input
    return where(_fitted(op, input, mask), input, input.new_full((), left_out(input)))


def _zero(input: Any) -> float:
    return 0


def _one(input: Any) -> float:
    return 1


def _nan(input: Any) -> float:
    return math.nan


def _lowest(input: Any) -> float:
    dtype = input._array.dtype
    if dtype.kind in "fcV":
        return -math.inf
    return False if dtype.kind == "b" else int(numpy.iinfo(dtype).min)


def _highest(input: Any) -> float:
    dtype = input._array.dtype
    if dtype.kind in "fcV":
        return math.inf
    return True if dtype.kind == "b" else int(numpy.iinfo(dtype).max)


def _dims(op: str, input: Any, dim: Any) -> tuple[int, ...]:
    dims = as_dims(dim, input.ndim, f"masked.{op}")
    return dims or tuple(range(input.ndim))


def _line(op: str, input: Any, dim: Any) -> int:
    """The dimension to go along; of several, and of all, it is the first, as in torch."""
    dims = _dims(op, input, dim)
    return dims[0] if dims else 0


def _count(input: Any, mask: Any, dims: Any, keepdim: Any, like: Any) -> Any:
    """How many elements are selected, in the dtype of the result."""
    ones = input.new_ones(tuple(input.shape), dtype=like.dtype)
    if mask is not None:
        ones = where(mask, ones, ones.new_zeros(()))
    return _sum(ones, dims, keepdim)


# Reductions ---------------------------------------------------------------------------------------


def _reduction(
    left_out: Callable[[Any], float], *, widened: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a reduction of values over dims one of selected elements; the others are `left_out`."""

    def decorate(reduce: Callable[..., Any]) -> Callable[..., Any]:
        def reduction(
            input: Any,
            dim: Any = None,
            *,
            keepdim: bool | None = False,
            dtype: Any = None,
            mask: Any = None,
        ) -> Any:
            input = (_widened if widened else _in_dtype)(input, dtype)
            dims = _dims(reduce.__name__, input, dim)
            return reduce(_filled(reduce.__name__, input, mask, left_out), dims, bool(keepdim))

        reduction.__name__ = reduction.__qualname__ = reduce.__name__
        reduction.__doc__ = reduce.__doc__
        return reduction

    return decorate


@_reduction(_zero, widened=True)
def sum(values: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """The sum of the selected elements.

    >>> import pullback as torch
    >>> torch.masked.sum(torch.tensor([1.0, 2.0]), mask=torch.tensor([True, False]))
    tensor(1.)
    """
    return _sum(values, dims, keepdim)


@_reduction(_one, widened=True)
def prod(values: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """`prod` of the selected elements."""
    for at in sorted(dims, reverse=True):
        values = _prod(values, at, keepdim)
    return values


@_reduction(_lowest)
def amax(values: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """`amax` of the selected elements."""
    return _amax(values, dims, keepdim)


@_reduction(_highest)
def amin(values: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """`amin` of the selected elements."""
    return _amin(values, dims, keepdim)


@_reduction(_lowest)
def logsumexp(values: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    """`logsumexp` of the selected elements."""
    return astype(_logsumexp(values, dims, keepdim), values._array.dtype)


def argmax(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """`argmax` of the selected elements."""
    values = _filled("argmax", _in_dtype(input, dtype), mask, _lowest)
    return astype(_argmax(values, dim, bool(keepdim)), values._array.dtype)  # as torch's: not int64


def argmin(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """`argmin` of the selected elements."""
    values = _filled("argmin", _in_dtype(input, dtype), mask, _highest)
    return astype(_argmin(values, dim, bool(keepdim)), values._array.dtype)


def mean(
    input: Any,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """`mean` of the selected elements."""
    input = _in_dtype(input, dtype)
    if input._array.dtype.kind in "biu":
        raise ValueError(
            f"masked.mean: a mean of {input.dtype} is not whole; give dtype, or convert first."
        )
    dims = _dims("mean", input, dim)
    chosen = None if mask is None else _fitted("mean", input, mask)
    total = _sum(_filled("mean", input, mask, _zero), dims, bool(keepdim))
    return true_divide(total, _count(input, chosen, dims, bool(keepdim), total))


def var(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """`var` of the selected elements."""
    return _variance("var", input, dim, unbiased, correction, bool(keepdim), dtype, mask)


def std(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: int | None = None,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """`std` of the selected elements."""
    return sqrt(_variance("std", input, dim, unbiased, correction, bool(keepdim), dtype, mask))


def _variance(
    op: str,
    input: Any,
    dim: Any,
    unbiased: Any,
    correction: Any,
    keepdim: bool,
    dtype: Any,
    mask: Any,
) -> Any:
    if unbiased is not None and correction is not None:
        raise RuntimeError(f"masked.{op}: give unbiased or correction, not both.")
    if correction is None:
        correction = 0 if unbiased is False else 1
    if dtype is None and input._array.dtype.kind in "biu":
        dtype = numpy.dtype("float32")
    input = _in_dtype(input, dtype)
    dims = _dims(op, input, dim)
    chosen = None if mask is None else _fitted(op, input, mask)
    total = _sum(_filled(op, input, mask, _zero), dims, True)
    count = _count(input, chosen, dims, True, total)
    off = input - true_divide(total, count)
    squares = _filled(op, real(off * conj(off)), mask, _zero)
    # Complex stays complex, as in torch.
    spread = astype(_sum(squares, dims, keepdim), input._array.dtype)
    count = real(_count(input, chosen, dims, keepdim, total)) - correction
    return true_divide(spread, where(count < 0, count.new_zeros(()), count))


def median(
    input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """`median` of the selected elements along `dim`; the lower one of two."""
    input = _in_dtype(input, dtype)
    if input._array.dtype.kind in "fV":
        return _nanmedian(_filled("median", input, mask, _nan), dim, keepdim).values
    values = _filled("median", astype(input, numpy.dtype("float64")), mask, _nan)
    result = _nanmedian(values, dim, keepdim).values
    if mask is not None and bool(any(isnan(result))):
        raise ValueError(
            f"masked.median: where nothing is selected the median is NaN, which {input.dtype} "
            "does not have; convert to a floating-point dtype first."
        )
    return astype(result, input._array.dtype)


def norm(
    input: Any,
    ord: float | None = 2.0,
    dim: Any = None,
    *,
    keepdim: bool | None = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The `linalg.vector_norm` of order `ord` of the selected elements."""
    input = _in_dtype(input, dtype)
    order = 2.0 if ord is None else float(ord)
    # Of negative order, an infinite element does not matter: 1 / inf is 0.
    values = _filled("norm", input, mask, _highest if order < 0 else _zero)
    return vector_norm(values, order, _dims("norm", input, dim), bool(keepdim))


# Along one dimension ------------------------------------------------------------------------------


def cumsum(input: Any, dim: Any, *, dtype: Any = None, mask: Any = None) -> Any:
    """`cumsum` of the selected elements."""
    values = _filled("cumsum", _in_dtype(input, dtype), mask, _zero)
    return _cumsum(values, _line("cumsum", input, dim), dtype=values.dtype)


def cumprod(input: Any, dim: Any, *, dtype: Any = None, mask: Any = None) -> Any:
    """`cumprod` of the selected elements."""
    values = _filled("cumprod", _in_dtype(input, dtype), mask, _one)
    return _cumprod(values, _line("cumprod", input, dim), dtype=values.dtype)


def softmax(input: Any, dim: Any, *, dtype: Any = None, mask: Any = None) -> Any:
    """`softmax` of the selected elements; the others get 0."""
    values = _in_dtype(_filled("softmax", input, mask, _lowest), dtype)
    return _softmax(values, _line("softmax", input, dim))


def log_softmax(input: Any, dim: Any, *, dtype: Any = None, mask: Any = None) -> Any:
    """The logarithm of `softmax`."""
    values = _in_dtype(_filled("log_softmax", input, mask, _lowest), dtype)
    return _log_softmax(values, _line("log_softmax", input, dim))


def softmin(input: Any, dim: Any, *, dtype: Any = None, mask: Any = None) -> Any:
    """`softmin` of the selected elements; the others get 0."""
    values = _in_dtype(_filled("softmin", input, mask, _highest), dtype)
    return _softmax(-values, _line("softmin", input, dim))


def normalize(
    input: Any, ord: float, dim: Any, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Any:
    """`normalize` of the selected elements along `dim`."""
    input = _in_dtype(input, dtype)
    length = norm(input, ord, _dims("normalize", input, dim), keepdim=True, mask=mask)
    return true_divide(_filled("normalize", input, mask, _zero), clamp_min(length, eps))


def logaddexp(
    input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Any:
    """`logaddexp` of the selected elements; what is left out counts as the exponential 0."""
    first = _in_dtype(_filled("logaddexp", input, input_mask, _lowest), dtype)
    second = _in_dtype(_filled("logaddexp", other, other_mask, _lowest), dtype)
    return astype(_logaddexp(first, second), input.dtype if dtype is None else dtype)
