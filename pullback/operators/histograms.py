"""Counting: elements per bin, per value, and a hash over them. Nothing here has a gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.tensor import Tensor, wrap
from pullback.operators.arithmetic import unsupported
from pullback.operators.batching import refused
from pullback.operators.declare import Array, Dims, Namespace, method, primitive
from pullback.operators.inplace import write_out
from pullback.operators.reduction_kernels import axis_of, check_not_empty
from pullback.operators.results import result_class

__all__ = ["bincount", "hash_tensor", "histc", "histogram", "histogramdd"]


def _check_bins(op: str, array: Array, bins: int) -> None:
    if array.dtype.kind != "f":
        raise unsupported(op, array)
    if bins <= 0:
        raise RuntimeError(f"{op}: the number of bins must be positive, got {bins}.")


# Bins of equal width ------------------------------------------------------------------------------


@primitive(shifts=False)
def histc(xp: Namespace, input: Array, bins: int = 100, min: float = 0, max: float = 0) -> Array:
    """How many elements fall into each of `bins` bins of equal width between `min` and `max`.

    If both are equal, the least and the greatest element take their place.

    >>> import pullback as torch
    >>> torch.histc(torch.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    _check_bins("histc", input, bins)
    low, high = float(min), float(max)
    if low > high:
        raise RuntimeError(f"histc: max must be larger than min, got min {min} and max {max}.")
    if low == high and input.size:
        low, high = float(input.min()), float(input.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(
            f"histc: the range from {low} to {high} is not finite; give min and max."
        )
    inside = input[(input >= low) & (input <= high)]
    width = input.dtype.type(high) - input.dtype.type(low)
    places = ((inside - input.dtype.type(low)) * bins / width).astype(xp.int64)
    return xp.bincount(xp.minimum(places, bins - 1), minlength=bins).astype(input.dtype)


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
    """Counts (or weights, densities) in bins, given as a number or by their edges; and those."""
    flat = input._array.reshape(-1, 1)
    weights = None if weight is None else _weights("histogram", weight, input._array.shape)
    counts, edges = _counted("histogram", flat, [bins], range, weights, density=density)
    if out is None:
        return _HistogramResult((wrap(counts), wrap(edges[0])))
    for target, array in zip(out, (counts, edges[0]), strict=True):
        write_out("histogram", target, array)
    return _HistogramResult(out)


def histogramdd(
    input: Tensor,
    bins: Any,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """As `histogram`, in as many dimensions as the last one of `input` is long."""
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
    return _HistogramddResult((wrap(counts), tuple(wrap(edge) for edge in edges)))


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
    if points.dtype.kind != "f":
        raise unsupported(op, points)
    limits = _limits(op, points, range)
    edges = [_edges(op, points, one, *pair) for one, pair in zip(bins, limits, strict=True)]
    shape = tuple(len(edge) - 1 for edge in edges)
    place = numpy.zeros(len(points), numpy.int64)
    inside = numpy.ones(len(points), bool)
    for column, edge, size in zip(points.T, edges, shape, strict=True):
        at = numpy.searchsorted(edge, column, "right") - 1
        at[column == edge[-1]] = size - 1  # the last bin has both its edges
        inside &= (at >= 0) & (at < size) & (column == column)
        place = place * size + at
    chosen = None if weights is None else weights[inside]
    counts: Any = numpy.bincount(place[inside], chosen, minlength=math.prod(shape))
    counts = counts.astype(points.dtype).reshape(shape)
    if density:
        counts /= counts.sum()
        for axis, edge in enumerate(edges):
            counts /= numpy.diff(edge).reshape((-1,) + (1,) * (len(edges) - 1 - axis))
    return counts, edges


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
    return [(low - 0.5, high + 0.5) if low == high else (low, high) for low, high in pairs]


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
    return numpy.linspace(low, high, bins + 1, dtype=points.dtype)


# Per value ----------------------------------------------------------------------------------------


@primitive(
    batch=refused,
)
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
    if input.ndim != 1 or (input.size and input.min() < 0):
        raise RuntimeError(
            f"bincount: needs a 1-d tensor of non-negative integers, got shape {input.shape}"
            f"{', with negative ones' if input.ndim == 1 else ''}."
        )
    if minlength < 0:
        raise RuntimeError(f"bincount: minlength must not be negative, got {minlength}.")
    if weights is None:
        return xp.bincount(input, minlength=minlength)
    if weights.shape != input.shape:
        raise RuntimeError(
            f"bincount: one weight per element, of shape {input.shape}, got shape {weights.shape}."
        )
    dtype = weights.dtype if weights.dtype.char == "f" else xp.float64
    return xp.bincount(input, weights.astype(xp.float64), minlength).astype(dtype)


@method
def hash_tensor(
    input: Any, dim: Any = (), *, keepdim: bool = False, mode: int = 0, out: Any = None
) -> Any:
    """The exclusive or of the elements' 64-bit patterns over `dim`."""
    if mode != 0:
        raise RuntimeError(f"hash_tensor: mode 0 is the only one there is, got {mode}.")
    return _hash_tensor(input, dim, keepdim, out=out)


@primitive(name="hash_tensor", method=False)
def _hash_tensor(xp: Namespace, input: Array, dim: Dims, keepdim: bool) -> Array:
    if input.dtype.kind == "c":
        raise unsupported("hash_tensor", input)
    check_not_empty("hash_tensor", input, dim if input.ndim else None)
    wide = xp.float64 if input.dtype.kind in "fV" else xp.int64
    bits = xp.ascontiguousarray(input.astype(wide)).view(xp.uint64).reshape(input.shape)
    return xp.bitwise_xor.reduce(bits, axis_of(dim, input.ndim), None, None, keepdim)
