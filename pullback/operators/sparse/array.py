"""A pattern with values: the specified places; `arrays/patterned.py` has what kinds share."""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.explain import layout_errors as errors
from pullback.core.layout import layout
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.patterned import Patterned
from pullback.operators.arrays.scatter import add_at
from pullback.operators.arrays.sums import sums
from pullback.operators.sparse.layouts import pattern_in
from pullback.operators.sparse.pattern import (
    Pattern,
    coordinates,
    emptied,
    numbered_like,
    same_places,
    with_indices,
)

__all__ = ["SparseArray", "added", "flat_values", "is_sparse", "pattern_of", "values_at"]


class SparseArray(Patterned):
    """Values and where they are.

    A pattern is shared by all arrays that agree on it and never changes, but users can write to
    index tensors: to those that they gave, and to those that they asked for. Such tensors are
    `shown`, have memory of their own, and are compared with the pattern before it is used.
    """

    __slots__ = ("_pattern", "shown")

    _pattern: Pattern
    shown: tuple[Tensor, ...] | None

    @property
    def pattern(self) -> Pattern:
        """Where the values are, by now."""
        if self.shown is not None:
            self._look_again(self.shown)
        return self._pattern

    @pattern.setter
    def pattern(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self.shown = None

    def _look_again(self, shown: tuple[Tensor, ...]) -> None:
        own = self._pattern
        arrays = [one._array for one in shown]
        if not all(map(numpy.array_equal, arrays, own.index_arrays)):
            self._pattern = with_indices(own, tuple(array.copy() for array in arrays))

    def show(self) -> tuple[Tensor, ...]:
        """The index tensors, the same memory each time."""
        if self.shown is None:
            self.shown = tuple(wrap(array.copy()) for array in self._pattern.index_arrays)
        return tuple(one.detach() for one in self.shown)

    # What indices have no part in is read without looking at them again.

    @property
    def layout(self) -> layout:
        """How elements are stored."""
        return self._pattern.layout

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions."""
        return self._pattern.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._pattern.shape)

    @property
    def size(self) -> int:
        """How many elements there are, specified or not."""
        return int(math.prod(self.shape))

    def __len__(self) -> int:
        return self.shape[0]

    def __getattr__(self, name: str) -> Any:
        raise errors.has_no(name, self.layout)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise errors.is_no_array(self.layout)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        raise errors.not_taken(func.__name__, self.layout)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any
    ) -> Any:
        rule = _UFUNCS.get(ufunc.__name__)
        if rule is None or method != "__call__" or kwargs:
            raise errors.not_taken(ufunc.__name__, self.layout)
        if out is None:
            return rule(*inputs)
        (target,) = out
        if ufunc is numpy.add and inputs[0] is target and isinstance(target, numpy.ndarray):
            add_into(target, inputs[1])
        else:
            target[...] = rule(*inputs)
        return target

    def swapaxes(self, a: int, b: int) -> SparseArray:
        """Two dimensions swapped; of coordinates, or of a matrix."""
        if a == b:
            return self
        return SparseArray(swapped(self.pattern, a, b), self.values)

    def transpose(self) -> SparseArray:
        """A matrix with rows as columns."""
        return self.swapaxes(0, 1)

    def reshape(self, shape: Any) -> SparseArray:
        """Itself: other shapes are refused."""
        if tuple(shape) != self.shape:
            raise errors.not_taken("reshape", self.layout)
        return self

    def sum(self, dims: Any = None, keepdims: bool = False) -> Array:
        """Sums as a dense array."""
        return dense_of(self).sum(dims, keepdims=keepdims)

    def zeros(self) -> SparseArray:
        """An array of the same layout, shape and dtype without specified elements."""
        empty = emptied(self.pattern)
        return SparseArray(empty, numpy.zeros(empty.values_shape, self.dtype))

    def become(self, other: SparseArray) -> None:
        """Take over another's places and values: what a write in place does."""
        if other.pattern is not self.pattern:
            self.pattern = other.pattern
        self.values = other.values


def is_sparse(value: Any) -> bool:
    """Whether an array or a tensor is sparse, in any layout."""
    return type(value) is SparseArray or type(getattr(value, "_array", None)) is SparseArray


def pattern_of(value: Any) -> Pattern:
    """The pattern of a sparse array or tensor."""
    pattern: Pattern = getattr(value, "_array", value).pattern
    return pattern


def flat_values(array: SparseArray) -> Array:
    """Values as rows, one for each column of the pattern's indices."""
    return array.values.reshape(array.pattern.flat_shape)


def dense_of(array: SparseArray) -> Array:
    """All elements, in an array of its own."""
    return scattered(flat_values(array), array.pattern)


def scattered(values: Array, pattern: Pattern) -> Array:
    """Zeros with rows of values added at their places."""
    out = numpy.zeros(pattern.shape, values.dtype)
    _put(out, values, pattern)
    return out


def add_into(target: Array, array: SparseArray) -> None:
    """Add the specified elements to a dense array, in place."""
    if target.shape != array.shape:
        raise ValueError(f"shapes {target.shape} and {array.shape} differ")
    _put(target, flat_values(array), array.pattern)


def _put(out: Array, values: Array, pattern: Pattern) -> None:
    if not pattern.sparse_shape:
        out += sums(numpy, values, (0,), keepdim=False)
    elif values.size:
        if values.dtype != out.dtype:
            values = values.astype(out.dtype)
        if pattern.coalesced or values.dtype.kind not in "fciu":
            _put_rows(out, values, pattern)
            return
        if values.size * 8 < out.size:  # where adding by a product would go through all of `out`
            merged, numbers, first = pattern.merging
            out[tuple(merged.indices)] += grouped(values, numbers, first)
            return
        dims = tuple(range(len(pattern.sparse_shape)))
        add_at(numpy, out, tuple(pattern.indices), dims, values)


def _put_rows(out: Array, values: Array, pattern: Pattern) -> None:
    places = tuple(pattern.indices)
    if pattern.is_unique:
        out[places] += values
    else:
        numpy.add.at(out, places, values)


def values_at(array: Any, pattern: Pattern) -> Array:
    """The elements of a dense or sparse array at the places of a pattern, as rows."""
    if type(array) is not SparseArray:
        return array[tuple(pattern.indices)].reshape(pattern.flat_shape)
    own = array.pattern
    if own is pattern and own.is_unique:
        return flat_values(array)
    if own.sparse_shape != pattern.sparse_shape:
        return values_at(dense_of(array), pattern)
    merged, values = coalesced_rows(array)
    out = numpy.zeros(pattern.flat_shape, values.dtype)
    if len(values) and pattern.count:
        keys, asked = merged.keys, pattern.keys
        found: Array = numpy.searchsorted(keys, asked)
        found[found == len(keys)] = 0
        hit = keys[found] == asked
        out[hit] = values[found[hit]]
    return out


def coalesced_rows(array: SparseArray) -> tuple[Pattern, Array]:
    """The coalesced pattern, of coordinates, and the sum of the values at each place."""
    pattern = array.pattern
    merged, numbers, first = pattern.merging
    values = flat_values(array)
    if merged is pattern:
        return merged, values
    return merged, grouped(values, numbers, first)


def grouped(values: Array, numbers: Array, first: Array) -> Array:
    """Rows of values summed by their group's number; `first` is a row of each group."""
    if len(first) == len(values):
        return values[first]
    if len(values) - len(first) < len(values) // 4:  # few come again: those are added to the rest
        again = numpy.ones(len(values), bool)
        again[first] = False
        out = values[first]
        numpy.add.at(out, numbers[again], values[again])
        return out
    out = numpy.zeros((len(first), *values.shape[1:]), values.dtype)
    if values.dtype.kind in "fciu" and values.size:
        add_at(numpy, out, (numbers,), (0,), values)
    else:
        numpy.add.at(out, numbers, values)
    return out


def swapped(pattern: Pattern, a: int, b: int) -> Pattern:
    """A pattern with two dimensions swapped."""
    kept = len(pattern.sparse_shape)
    if pattern.stored is None:
        if {a, b} != {kept - 2, kept - 1}:
            raise errors.not_taken("transpose of a batch", pattern.layout)
        return pattern.transposed
    if a >= kept or b >= kept:
        raise RuntimeError(
            f"transpose: dimensions {a} and {b} must both be among the {kept} sparse ones of a "
            "tensor of layout torch.sparse_coo; call to_dense() first."
        )
    if kept == 2 and len(pattern.shape) == 2:
        return pattern.transposed  # which is kept
    order = list(range(len(pattern.shape)))
    order[a], order[b] = b, a
    shape = tuple(pattern.shape[dim] for dim in order)
    return coordinates(pattern.stored[order[:kept]], shape, pattern.dense_dim)


# Arithmetic ---------------------------------------------------------------------------------------


def added(a: SparseArray, b: SparseArray) -> SparseArray:
    """A sum: sorted where both are, else one after the other."""
    if a.shape != b.shape:
        raise ValueError(f"shapes {a.shape} and {b.shape} differ")
    one, other = a.pattern, b.pattern
    if one is other or (one.stored is None and same_places(one, other)):
        return SparseArray(one, a.values + b.values)
    if one.stored is None or other.stored is None or one.sparse_shape != other.sparse_shape:
        both = union(one, other)
        rows = values_at(a, both) + values_at(b, both)
        return SparseArray(both, rows.reshape(both.values_shape))
    indices = numpy.concatenate([one.stored, other.stored], 1)
    values = numpy.concatenate([a.values, b.values])
    joined = SparseArray(coordinates(indices, a.shape, one.dense_dim), values)
    if not (one.coalesced and other.coalesced):
        return joined
    return SparseArray(*coalesced_rows(joined))


def _add(a: Any, b: Any) -> Any:
    if type(a) is SparseArray and type(b) is SparseArray:
        return added(a, b)
    array, dense = (a, b) if type(a) is SparseArray else (b, a)
    shape = numpy.broadcast_shapes(numpy.shape(dense), array.shape)
    out = numpy.empty(shape, numpy.result_type(dense, array.values))
    out[...] = dense
    if shape == array.shape:
        add_into(out, array)
    else:
        out += dense_of(array)
    return out


def _scaled(array: SparseArray, factor: Any, by: Any) -> SparseArray:
    """Each value with the factor at its place, by a function of two arrays."""
    if numpy.ndim(factor) == 0:
        return SparseArray(array.pattern, by(array.values, factor))
    factor = numpy.broadcast_to(factor, array.shape)
    rows = by(flat_values(array), values_at(factor, array.pattern))
    return SparseArray(array.pattern, rows.reshape(array.pattern.values_shape))


def _multiply(a: Any, b: Any) -> Any:
    if type(a) is not SparseArray:
        a, b = b, a
    if type(b) is not SparseArray:
        return _scaled(a, b, numpy.multiply)
    return multiplied(a, b)


def multiplied(a: SparseArray, b: SparseArray) -> SparseArray:
    """A product of two of one shape, at the places of both."""
    one, other = a.pattern, b.pattern
    if one.is_unique and same_places(one, other):
        return SparseArray(one, a.values * b.values)
    both = _intersection(one, other)
    rows = values_at(a, both) * values_at(b, both)
    return SparseArray(both, rows.reshape(both.values_shape))


def _intersection(one: Pattern, other: Pattern) -> Pattern:
    """The places that two patterns share; blocks, and batches of matrices, stay whole."""
    if one.block or one.batch_shape:
        return one
    if one.dense_dim != other.dense_dim:
        return one if one.dense_dim > other.dense_dim else other
    shared = numpy.isin(one.keys, other.keys)
    places = one.indices[:, shared]
    return numbered_like(pattern_in(one.layout, places, one.shape, one.dense_dim), one)


def union(one: Pattern, other: Pattern) -> Pattern:
    """All places of two patterns of one shape; dense dimensions of one may be sparse in both."""
    if one.block != other.block:
        raise errors.not_taken("a sum of different blocks", one.layout)
    most = one if one.dense_dim <= other.dense_dim else other
    parts = [_as_sparse_as(pattern, most) for pattern in (one, other)]
    places = numpy.concatenate(parts, 1)
    made = pattern_in(one.layout, places, one.shape, most.dense_dim, one.block or None)
    return numbered_like(made, one)


def _as_sparse_as(pattern: Pattern, most: Pattern) -> Array:
    """The places of a pattern, of each element of the dimensions that are sparse in another."""
    more = most.sparse_shape[len(pattern.sparse_shape) :]
    if not more:
        return pattern.indices
    inside = numpy.indices(more).reshape(len(more), -1)
    outside = pattern.indices.repeat(inside.shape[1], 1)
    return numpy.concatenate([outside, numpy.tile(inside, (1, pattern.count))])


def _divide(a: Any, b: Any) -> Any:
    if type(b) is SparseArray:
        raise errors.not_taken("division by", b.layout)
    return _scaled(a, b, numpy.true_divide)


def _on_values(ufunc: Any) -> Any:
    return lambda a: SparseArray(a.pattern, ufunc(a.values))


_UFUNCS: dict[str, Any] = {
    "add": _add,
    "subtract": lambda a, b: _add(a, -b),
    "multiply": _multiply,
    "divide": _divide,
    "true_divide": _divide,
    "negative": _on_values(numpy.negative),
    "positive": _on_values(numpy.positive),
    "conjugate": _on_values(numpy.conjugate),
}
