"""Statistics by rank: quantiles, medians, the most frequent element."""

from __future__ import annotations

from typing import Any

from pullback.core.device import META
from pullback.core.dtype import int64
from pullback.core.errors import unsupported
from pullback.core.tensor import Tensor
from pullback.operators.arrays.reductions import (
    NOT_GIVEN,
    check_keepdim,
    check_not_empty,
    numpy_names,
)
from pullback.operators.arrays.row_major import in_order
from pullback.operators.arrays.scatter import read_along
from pullback.operators.arrays.sorting import has_nan, order_along, ranked, within
from pullback.operators.conditions import above, at_most, floating, given, host, not_empty
from pullback.operators.create.constants import constant_like
from pullback.operators.declare import Array, Dim, Dims, Namespace, kernel, method, primitive
from pullback.operators.indexing.picking import pick
from pullback.operators.indexing.selection import where
from pullback.operators.linalg.products import delivered
from pullback.operators.options import as_dim, numpy_spelled
from pullback.operators.pointwise.arithmetic import lerp
from pullback.operators.pointwise.comparison import isnan
from pullback.operators.pointwise.extrema import clamp_min
from pullback.operators.pointwise.rounding import ceil, floor, round
from pullback.operators.reduce.extremes import CHOSEN, of_all
from pullback.operators.reduce.sorting import sort
from pullback.operators.reduce.sums import sum
from pullback.operators.results import result_class
from pullback.operators.running.by_example import each_example, level_reading
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshaping import expand, movedim, reshape, squeeze
from pullback.operators.tensor.convert import astype
from pullback.operators.variants import named

FOUND_IN = {"torch": "median mode nanmedian nanquantile quantile"}

# Medians of everything ----------------------------------------------------------------------------


def _median_of_all(xp: Namespace, op: str, input: Array, dim: Any) -> Array:
    """The lower of the two middle elements, over all or (for batches) over `dim`."""
    if dim:
        rest = tuple(i for i in range(input.ndim) if i not in dim)
        lines = input.transpose(rest + dim).reshape(*(input.shape[i] for i in rest), -1)
        return _median_along(xp, op, lines, lines.ndim - 1, keepdim=False)[0]
    if not input.size:
        return xp.asarray(xp.nan).astype(input.dtype)
    return _median_along(xp, op, input.reshape(-1), 0, keepdim=False)[0]


@primitive(**of_all("median"), node="MedianBackward0")
def _median_full(xp: Namespace, input: Array, dim: Dims = None) -> Array:
    return _median_of_all(xp, "median", input, dim)


@primitive(**of_all("nanmedian"), node="NanmedianBackward0")
def _nanmedian_full(xp: Namespace, input: Array, dim: Dims = None) -> Array:
    return _median_of_all(xp, "nanmedian", input, dim)


_SORTED = 64  # up to here sorting takes less than a partition: 0.14 us for 10, that 0.46
_of_all = host & given(dim=None) & floating  # a value is all, without its place


@kernel(_median_full, _nanmedian_full, when=_of_all & not_empty & at_most(_SORTED), declines=True)
def _middle_of_few(input: Array) -> Array | None:
    line = input.flatten()
    line.sort()  # NaN comes last
    last = line.item(-1)
    return line[(line.size - 1) // 2] if last == last else None


@kernel(_median_full, _nanmedian_full, when=_of_all & above(_SORTED), declines=True)
def _middle_of_many(xp: Namespace, input: Array) -> Array | None:
    line = input.flatten()
    if has_nan(xp, line):
        return None
    place = (line.size - 1) // 2
    line.partition(place)
    middle: Array = line[place]
    return middle


# Medians along a dimension ------------------------------------------------------------------------


def _median_along(xp: Namespace, op: str, input: Array, dim: int, keepdim: Any) -> Any:
    """The lower middle element along `dim`, and its index; NaN wins, but in nanmedian."""
    if input.dtype.kind in "bc":
        raise unsupported(op, input)
    if not input.ndim:
        return input.copy(), xp.zeros((), xp.int64)
    check_not_empty(op, input, dim)
    if not has_nan(xp, input):
        return ranked(xp, input, (input.shape[dim] - 1) // 2, dim, keepdim)
    nan = input != input
    count = (~nan).sum(dim, keepdims=True)
    order = order_along(xp, input, dim, descending=False)
    indices = read_along(xp, order, dim, xp.maximum(count - 1, 0) // 2)
    if op == "median":
        indices = xp.where(nan.any(dim, keepdims=True), nan.argmax(dim, keepdims=True), indices)
    values = read_along(xp, input, dim, indices)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


@primitive(**CHOSEN, name="median", node="MedianBackward1", aten="median.dim", meta="lengths kept")
def _median_dim(xp: Namespace, input: Array, dim: Dim, keepdim: bool = False) -> Any:
    return _median_along(xp, "median", input, dim, keepdim)


@primitive(
    **CHOSEN, name="nanmedian", node="NanmedianBackward1", aten="nanmedian.dim", meta="lengths kept"
)
def _nanmedian_dim(xp: Namespace, input: Array, dim: Dim, keepdim: bool = False) -> Any:
    return _median_along(xp, "nanmedian", input, dim, keepdim)


def _middle(op: str, full: Any, along: Any, result: Any) -> Any:
    def middle(
        input: Any,
        dim: Any = NOT_GIVEN,
        keepdim: bool = False,
        *,
        out: Any = None,
        axis: int | None = None,
        keepdims: bool | None = None,
    ) -> Any:
        if axis is not None or keepdims is not None:
            dim, keepdim = numpy_names(dim, keepdim, axis, keepdims)
        if dim is NOT_GIVEN and keepdim is False:
            return full(input, out=out)
        dim = None if dim is NOT_GIVEN else dim  # which is refused
        check_keepdim(op, keepdim)
        return result.of(along(input, dim, keepdim, out=out))

    return middle


median = method(
    named(
        "median",
        _middle("median", _median_full, _median_dim, result_class("median", "values indices")),
        """The middle element, the lower of two; with `dim` along it, and its index. NaN wins.

        >>> import pullback as torch
        >>> torch.median(torch.tensor([3.0, 1.0, 2.0, 4.0]))
        tensor(2.)
        """,
    )
)
nanmedian = method(
    named(
        "nanmedian",
        _middle(
            "nanmedian",
            _nanmedian_full,
            _nanmedian_dim,
            result_class("nanmedian", "values indices"),
        ),
        """As `median`, of the elements that are not NaN.

        >>> import pullback as torch
        >>> torch.nanmedian(torch.tensor([1.0, float("nan"), 3.0]))
        tensor(1.)
        """,
    )
)


# The most frequent element ------------------------------------------------------------------------


@primitive(**CHOSEN, name="mode", meta="lengths kept")
def _mode(xp: Namespace, input: Array, dim: Dim = -1, keepdim: bool = False) -> Any:
    if input.dtype.kind == "c":
        raise unsupported("mode", input)
    if not input.ndim:
        return input.copy(), xp.zeros((), xp.int64)
    check_not_empty("mode", input, dim)
    rows = input.swapaxes(dim, -1)
    order = order_along(xp, rows, rows.ndim - 1, descending=False)
    values = rows[within(xp, order)]
    places = xp.arange(rows.shape[-1])
    starts = xp.zeros(values.shape, xp.int64)
    starts[..., 1:] = xp.where(values[..., 1:] != values[..., :-1], places[1:], 0)
    run = places - xp.maximum.accumulate(starts, -1)
    # Where a run is first longer than all before: the smallest value, at its last index.
    ends = run.argmax(-1, keepdims=True)
    indices = in_order(order[within(xp, ends)].swapaxes(dim, -1))
    values = in_order(read_along(xp, input, dim, indices))
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


_ModeResult = result_class("mode", "values indices")


@method
def mode(
    input: Any,
    dim: int = -1,
    keepdim: bool = False,
    *,
    out: Any = None,
    axis: int | None = None,
    keepdims: bool | None = None,
) -> Any:
    """The most frequent element along `dim`, the smallest of several, and its last index.

    >>> import pullback as torch
    >>> torch.mode(torch.tensor([1, 2, 2, 3]))
    torch.return_types.mode(
    values=tensor(2),
    indices=tensor(2))
    """
    check_keepdim("mode", keepdim)
    return _ModeResult.of(_mode(input, dim, keepdim, out=out, axis=axis, keepdims=keepdims))


# Quantiles ----------------------------------------------------------------------------------------

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@method
@numpy_spelled
def quantile(
    input: Any,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Any = None,
) -> Any:
    """The element at the fraction `q` of the sorted ones, interpolated; NaN if one is among them.

    A tensor of several `q` puts them in front of the result's shape.

    >>> import pullback as torch
    >>> torch.quantile(torch.tensor([0.0, 1.0, 2.0]), 0.25)
    tensor(0.5000)
    """
    if (level := level_reading(q)) is not None:
        options = {"interpolation": interpolation, "out": out}
        return each_example(level, quantile, input, q, dim, keepdim, **options)
    result = _quantiles("quantile", input, q, dim, keepdim, interpolation)
    return delivered("quantile", result, out)


@method
@numpy_spelled
def nanquantile(
    input: Any,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Any = None,
) -> Any:
    """As `quantile`, of the elements that are not NaN.

    >>> import pullback as torch
    >>> torch.nanquantile(torch.tensor([1.0, float("nan"), 3.0]), 0.5)
    tensor(2.)
    """
    if (level := level_reading(q)) is not None:
        options = {"interpolation": interpolation, "out": out}
        return each_example(level, nanquantile, input, q, dim, keepdim, **options)
    result = _quantiles("nanquantile", input, q, dim, keepdim, interpolation)
    return delivered("nanquantile", result, out)


def _quantiles(op: str, input: Any, q: Any, dim: Any, keepdim: Any, interpolation: str) -> Any:
    check_keepdim(op, keepdim)
    q = _checked_fractions(op, input, q, interpolation)
    at = None if dim is None else as_dim(dim, input.ndim, op)
    lines = reshape(input, (-1,)) if at is None or not input.ndim else movedim(input, at, -1)
    values = sort(lines, -1).values
    fractions = q if q.ndim else reshape(q, (1,))
    ranks = _ranks(op, values, fractions)
    result = movedim(_at_ranks(values, ranks, interpolation), -1, 0)
    if keepdim and input.ndim:
        shape = (1,) * input.ndim if at is None else _with_one(input.shape, at)
        result = reshape(result, (fractions.shape[0], *shape))
    return shown_as("SqueezeBackward4", result if q.ndim else squeeze(result, 0))


def _with_one(shape: Any, at: int) -> tuple[int, ...]:
    return (*shape[:at], 1, *shape[at + 1 :])


def _checked_fractions(op: str, input: Any, q: Any, interpolation: str) -> Any:
    array = input._array
    if array.dtype.char not in "fd":
        raise RuntimeError(f"{op}: the input must be float32 or float64, got {input.dtype}.")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{op}: interpolation must be one of {', '.join(_INTERPOLATIONS)}, got "
            f"{interpolation!r}."
        )
    if not array.size:
        raise RuntimeError(f"{op}: the input of shape {array.shape} has no elements.")
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{op}: q must be between 0 and 1, got {q}.")
        return constant_like(input, array.dtype.type(q).reshape(()))
    if q.ndim > 1 or q.dtype is not input.dtype:
        raise RuntimeError(
            f"{op}: q must be a number, or a tensor of at most 1 dimension and dtype "
            f"{input.dtype}, got {q.dtype} and shape {tuple(q.shape)}."
        )
    if q.device is not META and not ((q._array >= 0) & (q._array <= 1)).all():
        raise RuntimeError(f"{op}: q must be between 0 and 1, got {q._array}.")
    return q


def _ranks(op: str, values: Any, fractions: Any) -> Any:
    """How far along each sorted line the fractions are; at its end, where NaN is, if any is."""
    nan = isnan(values)
    if op == "nanquantile":
        count = astype(sum(~nan, -1, True), values.dtype)
        return clamp_min(fractions * (count - 1), 0)
    last = values.shape[-1] - 1
    ranks = expand(fractions * last, (*values.shape[:-1], fractions.shape[0]))
    return where(nan[..., -1:], float(last), ranks)


def _at_ranks(values: Any, ranks: Any, interpolation: str) -> Any:
    dim = values.ndim - 1
    rounded = {"lower": floor, "higher": ceil, "nearest": round}.get(interpolation, floor)(ranks)
    below = pick(values, astype(rounded.detach(), int64), dim)
    if interpolation in ("lower", "higher", "nearest"):
        return below
    above = pick(values, astype(ceil(ranks).detach(), int64), dim)
    weight = 0.5 if interpolation == "midpoint" else ranks - rounded
    return lerp(below, above, weight)
