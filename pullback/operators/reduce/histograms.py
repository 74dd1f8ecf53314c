"""Counting: elements per bin, per value, and a hash over them. Nothing here has a gradient."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.addresses import as_counts, finds_indices
from pullback.core.arrays import is_wrong, namespace
from pullback.core.device import META
from pullback.core.errors import unsupported
from pullback.core.forward import visible_levels
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.core.view import edge_of
from pullback.operators.arrays.reductions import axis_of, check_not_empty
from pullback.operators.batching import filled, refused
from pullback.operators.declare import Array, Dims, Namespace, Op, method, primitive
from pullback.operators.options import as_int, numpy_spelled
from pullback.operators.pointwise.rounding import no_derivative
from pullback.operators.results import result_class
from pullback.operators.running.inplace import write_out
from pullback.operators.running.writes import check_outs
from pullback.operators.shape.joining import stack
from pullback.operators.shape.reshape_inplace import unsupported_node

FOUND_IN = {"torch": "hash_tensor histogram histogramdd"}


def _check_bins(op: str, array: Array, bins: int) -> None:
    if array.dtype.kind != "f":
        raise unsupported(op, array)
    if bins <= 0:
        raise RuntimeError(f"{op}: the number of bins must be positive, got {bins}.")


# Bins of equal width ------------------------------------------------------------------------------


def _flat(batch: Any) -> Any:
    return batch.reshape((batch.shape[0], math.prod(batch.shape[1:])))


def _rows_of_examples(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """Histc of a batch: every example is a row with bins of its own."""
    return _row_counts(_flat(filled(split["input"], size)), **options)


def _more_rows(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    return op.function(filled(split["input"], size), **options)


def _apart(xp: Namespace, low: Array, high: Array, distance: float) -> tuple[Array, Array]:
    """Limits of ranges; a range of one number gets wider by `distance` on both sides.

    Where that is lost in rounding it gets wider by one number that the dtype has.
    """
    low, high = xp.asarray(low), xp.asarray(high)
    point = (low == high) & xp.isfinite(low)
    if not point.any():
        return low, high
    step = low.dtype.type(distance)
    wider = low - step, high + step
    lost = point & ((wider[0] == low) | (wider[1] == high))
    most = numpy.finfo(low.dtype).max
    below = xp.maximum(xp.nextafter(low, -most), -most)
    above = xp.minimum(xp.nextafter(high, most), most)
    return (
        xp.where(lost, below, xp.where(point, wider[0], low)),
        xp.where(lost, above, xp.where(point, wider[1], high)),
    )


@primitive(batch=_more_rows, method=False, has_out=False)
def _row_counts(xp: Namespace, input: Array, bins: int, min: float, max: float) -> Array:
    """`histc` along the last dimension."""
    bins = as_int(bins, "histc", "bins")
    if input.dtype.kind == "V":  # NumPy's own floats alone count and compare at ease
        wide = input.astype(xp.float32)
        return _row_counts.op.forward(xp, wide, bins, min, max).astype(input.dtype)  # type: ignore[attr-defined]  # a declared operator has it
    _check_bins("histc", input, bins)
    if min > max:
        raise RuntimeError(f"histc: max must be larger than min, got min {min} and max {max}.")
    rows = input.reshape(math.prod(input.shape[:-1]), input.shape[-1])
    low, high = xp.full(len(rows), min, input.dtype), xp.full(len(rows), max, input.dtype)
    if min == max and rows.shape[1]:
        low, high = rows.min(1), rows.max(1)
    low, high = (limit[:, None] for limit in _apart(xp, low, high, 1))
    if not (xp.isfinite(low).all() and xp.isfinite(high).all()):
        raise RuntimeError(
            f"histc: the range from {low.min()} to {high.max()} is not finite; give min and max."
        )
    inside = (rows >= low) & (rows <= high)
    largest = numpy.finfo(input.dtype).max / (4 * bins)
    if rows.size and (float(-low.min()) > largest or float(high.max()) > largest):
        # Differences would overflow, and their multiples; scaled by a power of 2 none is rounded.
        step = input.dtype.type(1 / (8 << bins.bit_length()))
        rows, low, high = rows * step, low * step, high * step
    places = xp.where(inside, (rows - low) * bins / (high - low), 0).astype(xp.int64)
    places = xp.minimum(places, bins - 1) + xp.arange(len(rows))[:, None] * bins
    counts = xp.bincount(as_counts(places[inside]), minlength=len(rows) * bins)
    return counts.reshape(*input.shape[:-1], bins).astype(input.dtype)


@primitive(batch=_rows_of_examples)
def histc(xp: Namespace, input: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    """How many elements fall into each of `bins` bins of equal width between `min` and `max`.

    If both are equal, the least and the greatest element take their place.

    >>> import pullback as torch
    >>> torch.histc(torch.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    forward = _row_counts.op.forward  # type: ignore[attr-defined]  # declared, so it has one
    return forward(xp, input.reshape(-1), bins, min, max)


# Bins with edges ----------------------------------------------------------------------------------

_HistogramResult = result_class("histogram", "hist bin_edges")
_HistogramddResult = result_class("histogramdd", "hist bin_edges")


@method
def histogram(
    input: Tensor,
    bins: Any = 100,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Any = None,
) -> Any:
    """Counts (or weights, densities) in bins, given as a number or by their edges; and those.

    >>> import pullback as torch
    >>> torch.histogram(torch.tensor([1.0, 2.0, 2.0, 3.0]), 2).hist
    tensor([1., 3.])
    """
    if isinstance(bins, Tensor) and bins.ndim == 0 and range is not None:
        bins = operator.index(bins)  # a range goes with a number of bins only
    if get_mode().levels:
        if out is not None:
            raise RuntimeError("histogram: out= cannot be used inside vmap; use what is returned.")
        limits, number = (bins, 0) if isinstance(bins, Tensor) else (None, bins)
        weight = None if weight is None else weight.reshape((-1,))
        rows = input.reshape((-1,))
        return _HistogramResult(_histograms(rows, limits, weight, number, range, density))
    if _checked("histogram", input).device is META:
        raise errors.no_data("histogram()")
    flat = input._array.reshape(-1, 1)
    weights = None if weight is None else _weights("histogram", weight, input._array.shape)
    counts, edges = _counted("histogram", flat, [bins], range, weights, density=density)
    if out is None:
        results = wrap(counts), wrap(edges[0])
        _record_without_derivative("histogram", (input, bins, weight), results)
        return _HistogramResult(results)
    made = counts, edges[0]
    check_outs("histogram", out, made)
    for target, array in zip(out, made, strict=True):
        write_out("histogram", target, array)
    return _HistogramResult(out)


def _checked(op: str, input: Any) -> Tensor:
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor(op, "input", input)
    return input


def _record_without_derivative(op: str, inputs: Any, results: tuple[Tensor, ...]) -> None:
    """As torch has it, results require grad, and backward refuses; so does forward mode."""
    mode = get_mode()
    sources = [one for one in inputs if isinstance(one, Tensor)]
    if any(level.get(one) is not None for level in visible_levels() for one in sources):
        no_derivative(op)
    if mode.grad and not mode.inference and any(one.requires_grad for one in sources):
        edges = tuple(edge_of(one) for one in sources)
        for result in results:
            result._node = unsupported_node(op, edges, result)


def _more_examples(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    return op.function(*(filled(pair, size) for pair in split.values()), **options)


@primitive(batch=_more_examples, outputs="hist bin_edges", method=False, has_out=False)
def _histograms(
    xp: Namespace,
    input: Array,
    limits: Array | None,
    weight: Array | None,
    bins: int,
    range: Any,
    density: bool,
) -> Any:
    """`histogram` along the last dimension, row by row: each may have edges of its own."""
    rows = input.reshape(math.prod(input.shape[:-1]), input.shape[-1], 1)
    own = None if limits is None else limits.reshape(-1, limits.shape[-1])
    weights = None if weight is None else weight.reshape(-1, weight.shape[-1])
    found, made = [], []
    for number, row in enumerate(rows):
        one = bins if own is None else wrap(own[number])
        scale = None if weights is None else weights[number]
        counts, used = _counted("histogram", row, [one], range, scale, density=density)
        found.append(counts)
        made.append(used[0])
    lead = input.shape[:-1]
    if not found:
        count = bins if limits is None else limits.shape[-1] - 1
        return xp.zeros((*lead, count), input.dtype), xp.zeros((*lead, count + 1), input.dtype)
    return xp.stack(found).reshape(*lead, -1), xp.stack(made).reshape(*lead, -1)


def histogramdd(
    input: Tensor, bins: Any, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> Any:
    """As `histogram`, in as many dimensions as the last one of `input` is long.

    >>> import pullback as torch
    >>> torch.histogramdd(torch.tensor([[0.0, 0.0], [1.0, 1.0]]), [2, 2]).hist
    tensor([[1., 0.],
            [0., 1.]])
    """
    if _checked("histogramdd", input).device is META:
        raise errors.no_data("histogramdd()")
    if input.ndim < 2:
        raise RuntimeError(
            f"histogramdd: needs at least 2 dimensions, got shape {tuple(input.shape)}."
        )
    points = input._array.reshape(-1, input.shape[-1])
    listed = [bins] * points.shape[1] if isinstance(bins, int) else list(bins)
    if len(listed) != points.shape[1]:
        raise RuntimeError(
            f"histogramdd: {len(listed)} bins for points of {points.shape[1]} coordinates; give "
            "one each."
        )
    weights = None if weight is None else _weights("histogramdd", weight, input._array.shape[:-1])
    counts, edges = _counted("histogramdd", points, listed, range, weights, density=density)
    hist, sides = wrap(counts), tuple(wrap(edge) for edge in edges)
    _record_without_derivative("histogramdd", (input, *listed, weight), (hist, *sides))
    return _HistogramddResult((hist, sides))


def _weights(op: str, weight: Tensor, shape: tuple[int, ...]) -> Array:
    if weight._array.shape != shape:
        raise RuntimeError(
            f"{op}: one weight per point, of shape {shape}, got shape {weight._array.shape}."
        )
    return weight._array.reshape(-1)


def _counted(
    op: str, points: Array, bins: list[Any], range: Any, weights: Array | None, *, density: bool
) -> tuple[Array, list[Array]]:
    """Counts in a grid of bins, and the edges along each coordinate."""
    if points.dtype.kind == "V":
        return _counted_wide(op, points, bins, range, weights, density=density)
    if points.dtype.kind != "f":
        raise unsupported(op, points)
    limits = _limits(op, points, range)
    edges = [_edges(op, points, one, *pair) for one, pair in zip(bins, limits, strict=True)]
    shape = tuple(len(edge) - 1 for edge in edges)
    xp = namespace(points)
    place = xp.zeros(len(points), numpy.int64)
    inside = xp.ones(len(points), bool)
    for column, edge, size in zip(points.T, edges, shape, strict=True):
        at = xp.searchsorted(edge, column, "right") - 1
        at = xp.where(column == edge[-1], size - 1, at)  # the last bin has both its edges
        inside &= (at >= 0) & (at < size) & (column == column)
        place = place * size + at
    chosen = None if weights is None else weights[inside]
    counts: Any = xp.bincount(as_counts(place[inside]), chosen, minlength=math.prod(shape))
    counts = counts.astype(points.dtype).reshape(shape)
    if density:
        counts /= counts.sum()
        for axis, edge in enumerate(edges):
            counts /= xp.diff(edge).reshape((-1,) + (1,) * (len(edges) - 1 - axis))
    return counts, edges


def _counted_wide(
    op: str, points: Array, bins: list[Any], range: Any, weights: Array | None, *, density: bool
) -> tuple[Array, list[Array]]:
    """Counts of bfloat16, by way of float32."""
    own = points.dtype
    wide = [
        wrap(_edges(op, points, one, 0, 0).astype("f4")) if isinstance(one, Tensor) else one
        for one in bins
    ]
    chosen = None if weights is None else weights.astype("f4")
    counts, edges = _counted(op, points.astype("f4"), wide, range, chosen, density=density)
    return counts.astype(own), [edge.astype(own) for edge in edges]


def _limits(op: str, points: Array, range: Any) -> list[tuple[float, float]]:
    if range is not None:
        flat = [float(limit) for limit in range]
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
    elif len(points):
        pairs = list(zip(points.min(0), points.max(0), strict=True))
    else:
        pairs = [(0.0, 1.0)] * points.shape[1]
    for low, high in pairs:
        if low > high:
            raise RuntimeError(f"{op}: a range must go from min to max, got {low} to {high}.")
    own = points.dtype.type
    limits = []
    for low, high in pairs:
        if low == high:
            below, above = _apart(numpy, own(low), own(high), 0.5)
            low, high = float(below), float(above)
        limits.append((low, high))
    return limits


def _edges(op: str, points: Array, bins: Any, low: float, high: float) -> Array:
    if isinstance(bins, Tensor):
        if bins._array.dtype != points.dtype or bins.ndim != 1:
            raise RuntimeError(
                f"{op}: edges of bins must be a 1-d tensor of the input's dtype, got {bins.dtype} "
                f"and shape {tuple(bins.shape)}."
            )
        return bins._array.copy()
    _check_bins(op, points, bins)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"{op}: the range from {low} to {high} is not finite; give `range`.")
    xp = namespace(points)
    if math.isinf(high - low):
        return 2 * xp.linspace(low / 2, high / 2, bins + 1, dtype=points.dtype)
    return xp.linspace(low, high, bins + 1, dtype=points.dtype)


# Per value ----------------------------------------------------------------------------------------


def _one_by_one(op: Op, size: int, split: dict[str, Any], options: dict[str, Any]) -> Any:
    """How long a count is depends on the values; vmap wants one length for all examples."""
    whole = {name: filled(pair, size) for name, pair in split.items()}
    runs = [
        op.function(**{n: None if t is None else t[k] for n, t in whole.items()}, **options)
        for k in range(size)
    ]
    if len({tuple(one.shape) for one in runs}) > 1:
        return refused(op, size, {}, {})
    return stack(runs)


@primitive(
    batch=_one_by_one,
    weights=lambda g: no_derivative("bincount"),
    node="NotImplemented",
    has_out=False,
    meta="by values",
)
@finds_indices()
def bincount(
    xp: Namespace, input: Array, weights: Array | None = None, minlength: int = 0
) -> Array:
    """How often each number from 0 on comes, or the sum of its weights.

    >>> import pullback as torch
    >>> torch.bincount(torch.tensor([1, 1, 3]))
    tensor([0, 2, 0, 1])
    """
    if input.dtype.kind not in "iu":
        raise unsupported("bincount", input)
    if input.ndim != 1 or is_wrong(input < 0):
        raise RuntimeError(
            f"bincount: needs a 1-d tensor of non-negative integers, got shape {input.shape}"
            f"{', with negative ones' if input.ndim == 1 else ''}."
        )
    minlength = as_int(minlength, "bincount", "minlength")
    if minlength < 0:
        raise RuntimeError(f"bincount: minlength must not be negative, got {minlength}.")
    if weights is None or input.size == 0:
        return xp.bincount(as_counts(input), minlength=minlength)
    if weights.shape != input.shape:
        raise RuntimeError(
            f"bincount: one weight per element, of shape {input.shape}, got shape {weights.shape}."
        )
    dtype = weights.dtype if weights.dtype.char == "f" else xp.float64
    return xp.bincount(as_counts(input), weights.astype(xp.float64), minlength).astype(dtype)


@method
@numpy_spelled
def hash_tensor(
    input: Any, dim: Any = None, *, keepdim: bool = False, mode: int = 0, out: Any = None
) -> Any:
    """The exclusive or of the elements' 64-bit patterns over `dim`.

    >>> import pullback as torch
    >>> torch.hash_tensor(torch.tensor([1, 2])) == torch.hash_tensor(torch.tensor([1, 2]))
    tensor(True)
    """
    if as_int(mode, "hash_tensor", "mode") != 0:
        raise RuntimeError(f"hash_tensor: mode 0 is the only one there is, got {mode}.")
    return _hash_tensor(input, dim, keepdim, out=out)


@primitive(name="hash_tensor", method=False, aten="")
def _hash_tensor(xp: Namespace, input: Array, dim: Dims = None, keepdim: bool = False) -> Array:
    if input.dtype.kind == "c":
        raise unsupported("hash_tensor", input)
    check_not_empty("hash_tensor", input, dim if input.ndim else None)
    wide = xp.float64 if input.dtype.kind in "fV" else xp.int64
    bits = xp.ascontiguousarray(input.astype(wide)).view(xp.uint64).reshape(input.shape)
    return xp.bitwise_xor.reduce(bits, axis_of(dim, input.ndim), None, None, keepdim)
