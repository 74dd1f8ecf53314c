"""Products of sparse matrices over arrays: SciPy's where it is installed, else in NumPy alone."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy

from pullback.core.addresses import as_counts
from pullback.core.arrays import Array
from pullback.operators.sparse.pattern import Pattern, flat_places, from_flat_places

__all__ = ["pairs", "product", "product_at", "product_places", "rowwise_dots"]

_BLOCK = 1 << 20  # elements at a time


@cache
def _scipy() -> Any:
    """SciPy's sparse matrices, or None."""
    try:
        return import_module("scipy.sparse")
    except ImportError:
        return None


def _wide(array: Array) -> Array:
    """In a dtype that is computed in: halves and bfloat16 in float32."""
    small = array.dtype.kind == "V" or array.dtype == numpy.float16
    return array.astype(numpy.float32) if small else array


def _rows(values: Array, pattern: Pattern) -> tuple[Array, Array, Array]:
    starts, columns, order = pattern.by_row
    return starts, columns, values if order is None else values[order]


def product(values: Array, dense: Array, pattern: Pattern) -> Array:
    """A sparse matrix times a dense one."""
    starts, columns, rows = _rows(values, pattern.matrix)
    wide, other = _wide(rows), _wide(dense)
    result = numpy.result_type(values, dense) if values.dtype != dense.dtype else values.dtype
    scipy = _scipy()
    if scipy is not None and wide.dtype.kind in "fc":
        matrix = scipy.csr_array((wide, columns, starts), shape=pattern.shape[:2])
        made = matrix @ other
    else:
        made = _product(wide, other, starts, columns, len(starts) - 1)
    return numpy.asarray(made).astype(result, copy=False)


def _product(values: Array, dense: Array, starts: Array, columns: Array, rows: int) -> Array:
    out = numpy.zeros((rows, dense.shape[1]), numpy.result_type(values, dense))
    filled = numpy.flatnonzero(numpy.diff(starts))
    if not len(filled) or not dense.shape[1]:
        return out
    step = max(1, _BLOCK // max(1, len(values)))
    for first in range(0, dense.shape[1], step):
        part = dense[:, first : first + step]
        terms = part[columns] * values[:, None]
        out[filled, first : first + step] = numpy.add.reduceat(
            terms, as_counts(starts[:-1][filled])
        )
    return out


def rowwise_dots(left: Array, right: Array, pattern: Pattern) -> Array:
    """At each place (i, j) of a pattern, row i of `left` times row j of `right`."""
    rows, columns = pattern.indices[-2:]
    result = left.dtype if left.dtype == right.dtype else numpy.result_type(left, right)
    left, right = _wide(left), _wide(right)
    out = numpy.empty(len(rows), numpy.result_type(left, right))
    step = max(1, _BLOCK // max(1, left.shape[1]))
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        numpy.einsum("ik,ik->i", left[rows[part]], right[columns[part]], out=out[part])
    return out.astype(result, copy=False)


def pairs(left: Pattern, right: Pattern) -> tuple[Array, Array]:
    """Which values of two matrices meet in their product: numbers on the left and on the right."""
    columns = left.indices[1]
    starts, _, order = right.matrix.by_row
    starts = starts.astype(numpy.int64, copy=False)
    lengths = as_counts(numpy.diff(starts)[columns])
    ours = numpy.arange(left.count).repeat(lengths)
    begun = numpy.cumsum(lengths) - lengths
    theirs = numpy.arange(len(ours)) - begun.repeat(lengths) + starts[:-1][columns].repeat(lengths)
    return ours, theirs if order is None else order[theirs]


def product_places(
    left: Array, right: Array, left_pattern: Pattern, right_pattern: Pattern
) -> tuple[Array, Array | None]:
    """The coordinates, sorted, of the product of two matrices; and its values, if known."""
    shape = (left_pattern.shape[0], right_pattern.shape[1])
    if _scipy() is not None and left.dtype.char in "fdFD" and left.dtype == right.dtype:
        made = _matrix(left_pattern, left) @ _matrix(right_pattern, right)
        made.sort_indices()
        rows = numpy.arange(shape[0]).repeat(numpy.diff(made.indptr))
        return numpy.stack([rows, made.indices.astype(numpy.int64)]), made.data
    ours, theirs = pairs(left_pattern, right_pattern)
    places = numpy.stack([left_pattern.indices[0][ours], right_pattern.indices[1][theirs]])
    return from_flat_places(numpy.unique(flat_places(places, shape)), shape), None


def _matrix(pattern: Pattern, values: Array) -> Any:
    """A matrix of SciPy's."""
    starts, columns, rows = _rows(values, pattern.matrix)
    return _scipy().csr_array((rows, columns, starts), shape=pattern.shape[:2])


def product_at(
    left: Array, right: Array, left_pattern: Pattern, right_pattern: Pattern, onto: Pattern
) -> Array:
    """The product of two sparse matrices at the places of a third pattern."""
    result = left.dtype if left.dtype == right.dtype else numpy.result_type(left, right)
    left, right = _wide(left), _wide(right)
    out = numpy.zeros(onto.count, numpy.result_type(left, right))
    shape = onto.shape[:2]
    if _scipy() is not None and left.dtype.kind in "fc":
        made = _matrix(left_pattern, left) @ _matrix(right_pattern, right)
        made.sort_indices()
        rows = numpy.arange(shape[0]).repeat(numpy.diff(made.indptr))
        keys, terms = flat_places(numpy.stack([rows, made.indices]), shape), made.data
    else:
        ours, theirs = pairs(left_pattern, right_pattern)
        places = numpy.stack([left_pattern.indices[0][ours], right_pattern.indices[1][theirs]])
        keys, inverse = numpy.unique(flat_places(places, shape), return_inverse=True)
        terms = numpy.zeros(len(keys), out.dtype)
        numpy.add.at(terms, inverse.reshape(-1), left[ours] * right[theirs])
    if numpy.array_equal(keys, onto.keys):
        out = terms
    elif len(keys) and onto.count:
        found = numpy.minimum(numpy.searchsorted(keys, onto.keys), len(keys) - 1)
        hit = keys[found] == onto.keys
        out[hit] = terms[found[hit]]
    return out.astype(result, copy=False)
