"""Weighted sums along dimensions by a table: what interpolation, padding and adaptive pools share.

A table says for each output position which inputs it is made of and with which weights. The adjoint
of such a sum is one by the transposed table, so a single operator serves every order of derivative.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache, reduce
from typing import Any, TypeAlias

import numpy

from pullback.core.arrays import Array, is_finite
from pullback.operators.arrays.formats import keeps_format
from pullback.operators.arrays.windows import Sizes, volume
from pullback.operators.declare import Namespace, linear

__all__ = ["Taps", "declare_resample", "resample"]

Tables: TypeAlias = "tuple[Taps | None, ...]"  # for the last dimensions; None leaves one as it is

# Up to so many elements all dimensions are one step: a look-up, or a product with a matrix.
_FEW = 1 << 12
# Up to so many elements of a matrix, a product with it beats more than two taps.
_MOST_OF_MATRIX = 1 << 14
# Larger inputs are worked through in blocks of images, which stay in the cache between the steps:
# 256 images of 64 x 64, twice as large by "bilinear", take 13 ms instead of 21.
_BLOCK = 1 << 16


class Taps:
    """A sparse matrix of `number` rows and `size` columns; the t-th entry of each row is a tap.

    A tap is `(rows, columns, weights)`: rows is None where every row has one, weights is None where
    all are 1.
    """

    __slots__ = ("_casts", "_matrices", "_transposed", "made_for", "number", "runs", "size", "taps")

    def __init__(self, rows: Any, columns: Any, weights: Any, number: int, size: int) -> None:
        rows, columns = numpy.asarray(rows, numpy.intp), numpy.asarray(columns, numpy.intp)
        order = numpy.argsort(rows, kind="stable")
        rows, columns = rows[order], columns[order]
        weights = None if weights is None else numpy.asarray(weights, numpy.float64)[order]
        slots = numpy.arange(rows.size) - numpy.searchsorted(rows, rows)
        self.number, self.size = number, size
        self.made_for: Any = None  # what a user asked for: mode, align_corners, scale
        self.taps: list[tuple[Any, Any, Any]] = []
        for slot in range(int(slots.max()) + 1 if rows.size else 0):
            chosen = slots == slot
            where = None if int(chosen.sum()) == number else rows[chosen]
            scale = None if weights is None else weights[chosen]
            self.taps.append((where, columns[chosen], scale))
        # A plain look-up in few runs of memory is copied run by run: first row, column, length.
        self.runs: list[tuple[int, int, int]] | None = None
        if self.is_lookup:
            self.runs = _runs(self.taps[0][1])
        self._transposed: Taps | None = None
        self._casts: dict[Any, list[Any]] = {}
        self._matrices: dict[Any, Any] = {}

    @property
    def is_lookup(self) -> bool:
        """Whether each output is one of the inputs."""
        return len(self.taps) == 1 and self.taps[0][0] is None and self.taps[0][2] is None

    def transposed(self) -> Taps:
        """The table of the adjoint; made once."""
        if self._transposed is None:
            rows, columns, weights = self._entries()
            self._transposed = Taps(columns, rows, weights, self.size, self.number)
            self._transposed._transposed = self
        return self._transposed

    def _entries(self) -> tuple[Array, Array, Array | None]:
        """Rows, columns and weights of all entries."""
        every = numpy.arange(self.number)
        rows = [every if where is None else where for where, _, _ in self.taps]
        scales = [scale for _, _, scale in self.taps]
        weights = None if any(scale is None for scale in scales) else _joined(scales)
        return _joined(rows), _joined([column for _, column, _ in self.taps]), weights

    def __reduce__(self) -> Any:
        """Made anew from its entries: what it remembers is left out."""
        return Taps, (*self._entries(), self.number, self.size)

    def weights(self, dtype: Any) -> list[Any]:
        """The weights of each tap in a dtype."""
        known = self._casts.get(dtype)
        if known is None:
            known = [None if scale is None else scale.astype(dtype) for _, _, scale in self.taps]
            self._casts[dtype] = known
        return known

    def filled(self, dtype: Any) -> list[Any]:
        """Columns and weights as (number, most taps of a row); -1 and 0 where a row has no more."""
        known = self._casts.get(("filled", dtype))
        if known is None:
            shape = self.number, len(self.taps)
            places, weights = numpy.full(shape, -1, numpy.int32), numpy.zeros(shape, dtype)
            for slot, (where, columns, scale) in enumerate(self.taps):
                rows = slice(None) if where is None else where
                places[rows, slot], weights[rows, slot] = columns, 1 if scale is None else scale
            known = self._casts["filled", dtype] = [places, weights]
        return known

    def in_16_bits(self) -> tuple[Array, int]:
        """Weights as whole numbers, (size, number), and the bits by which they are too large."""
        exact = self.matrix(numpy.float64)
        largest = float(exact.max(initial=0.0))
        bits = 0
        while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
            bits += 1
        scaled = exact * (1 << bits)
        return numpy.trunc(scaled + numpy.copysign(0.5, scaled)).T, bits

    def matrix(self, dtype: Any) -> Array:
        """The table with all its zeros."""
        known = self._matrices.get(dtype)
        if known is None:
            whole = numpy.zeros((self.number, self.size))
            every = numpy.arange(self.number)
            for where, columns, scale in self.taps:
                rows = every if where is None else where
                numpy.add.at(whole, (rows, columns), 1 if scale is None else scale)
            known = self._matrices[dtype] = whole.astype(dtype)
        return known


_MOST_RUNS = 16


def _runs(columns: Any) -> list[tuple[int, int, int]] | None:
    """Stretches of consecutive columns; None if there are many."""
    starts = [0, *(numpy.flatnonzero(numpy.diff(columns) != 1) + 1).tolist()]
    if len(starts) > _MOST_RUNS:
        return None
    ends = [*starts[1:], len(columns)]
    return [(a, int(columns[a]), b - a) for a, b in zip(starts, ends, strict=True) if b > a]


def _joined(parts: list[Any]) -> Any:
    return numpy.concatenate(parts) if parts else numpy.empty(0, numpy.intp)


class _Plan:
    """How tables are applied to inputs of one shape; worked out once."""

    __slots__ = ("images", "index", "is_few", "new", "out", "pieces", "steps", "tables")

    def __init__(self, shape: Sizes, tables: Tables) -> None:
        dims = len(tables)
        lead, old = shape[: len(shape) - dims], shape[len(shape) - dims :]
        pairs = list(zip(old, tables, strict=True))
        self.new = tuple(n if table is None else table.number for n, table in pairs)
        self.out, self.tables = (*lead, *self.new), tables
        rows, length = volume(lead), max(volume(old), volume(self.new))
        self.images = (rows, volume(old))
        lookup = all(table is None or table.is_lookup for table in tables)
        few = rows * length <= _FEW and volume(old) * volume(self.new) <= _MOST_OF_MATRIX
        self.index = _index(pairs) if few and lookup else None
        self.is_few = few and not lookup
        self.pieces = None if few else _pieces(pairs)
        behind = range(dims - 1, -1, -1)
        steps = [(b, table) for b, table in zip(behind, tables, strict=True) if table is not None]
        # What shrinks goes first; what grows starts with the last dimension, where elements are
        # gathered one by one.
        shrinking = [step for step in steps if step[1].number < step[1].size]
        growing = [step for step in reversed(steps) if step[1].number >= step[1].size]
        self.steps = [*shrinking, *growing]


_plan = lru_cache(256)(_Plan)


def _index(pairs: list[tuple[int, Taps | None]]) -> Array:
    """Positions in an image, for a look-up in all dimensions at once."""
    index: Any = numpy.zeros((), numpy.intp)
    for n, table in pairs:
        columns = numpy.arange(n) if table is None else table.taps[0][1]
        index = index[..., None] * n + columns
    return index.reshape(-1)


def _pieces(pairs: list[tuple[int, Taps | None]]) -> list[tuple[Any, Any]] | None:
    """Runs of all dimensions as pairs of indices, where to and where from; None if not all have."""
    if any(table is not None and table.runs is None for _, table in pairs):
        return None
    runs = [[(0, 0, n)] if table is None else table.runs or [] for n, table in pairs]
    if math.prod(map(len, runs)) > _MOST_RUNS:
        return None
    return [
        (
            (..., *(slice(row, row + length) for row, _, length in piece)),
            (..., *(slice(column, column + length) for _, column, length in piece)),
        )
        for piece in itertools.product(*runs)
    ]


@lru_cache(256)
def _product(plan: _Plan, dtype: Any) -> Array:
    """The matrix, `(elements of the input, elements of the output)`, of all tables together."""
    sizes = [n for n, table in zip(plan.new, plan.tables, strict=True) if table is None]
    untouched = iter(sizes)
    matrices = [
        numpy.eye(next(untouched), dtype=dtype) if table is None else table.matrix(dtype)
        for table in plan.tables
    ]
    return numpy.ascontiguousarray(reduce(numpy.kron, matrices).T)


# Bytes --------------------------------------------------------------------------------------------


def _in_bytes(xp: Namespace, input: Array, tables: Tables) -> Array:
    """Images of bytes: the last dimension first, each step rounded to bytes.

    Weights are fractions of a power of 2, as large as 16 bits hold the largest of them: the
    arithmetic of Pillow, and of torch. Products are exact in float64, whose sums BLAS does.
    """
    image = input
    for behind, table in enumerate(reversed(tables)):
        if table is None:
            continue
        weights, bits = table.in_16_bits()
        lines = xp.moveaxis(image, -1 - behind, -1).astype(numpy.float64)
        sums = xp.floor((lines.dot(weights) + (1 << (bits - 1))) / (1 << bits))
        image = xp.moveaxis(xp.clip(sums, 0, 255).astype(input.dtype), -1, -1 - behind)
    return xp.ascontiguousarray(image)


def _resampled(xp: Namespace, input: Array, tables: Tables) -> Array:
    """Apply a table along each of the last dimensions; None leaves one as it is."""
    if input.dtype.itemsize == 2 and input.dtype.kind in "fV":
        return _resampled(xp, input.astype(xp.float32), tables).astype(input.dtype)
    if input.dtype.kind == "u" and any(table and not table.is_lookup for table in tables):
        return _in_bytes(xp, input, tables)
    plan = _plan(input.shape, tables)
    if plan.index is not None:
        return input.reshape(plan.images).take(plan.index, 1).reshape(plan.out)
    if plan.is_few and input.dtype.kind == "f":
        images = input.reshape(plan.images)
        if is_finite(images):
            return images.dot(_product(plan, input.dtype)).reshape(plan.out)
    if plan.pieces is not None:
        out = xp.empty(plan.out, input.dtype)
        for target, source in plan.pieces:
            out[target] = input[source]
        return out
    return _in_steps(xp, input, plan)


def _in_steps(xp: Namespace, input: Array, plan: _Plan) -> Array:
    """One dimension after the other, for some images at a time."""
    if not plan.steps:
        return input.copy()
    rows, dims = plan.images[0], len(plan.tables)
    images = input.reshape(rows, *input.shape[input.ndim - dims :])
    out = xp.empty((rows, *plan.new), input.dtype)
    step = max(_BLOCK // max(volume(images.shape[1:]), volume(plan.new), 1), 1)
    for start in range(0, rows, step):
        part = images[start : start + step]
        for behind, table in plan.steps[:-1]:
            part = _along(xp, part, table, behind, None)
        behind, table = plan.steps[-1]
        _along(xp, part, table, behind, out[start : start + step])
    return out.reshape(plan.out)


def _along(xp: Namespace, x: Array, table: Taps, behind: int, out: Array | None) -> Array:
    """Apply a table along the dimension that has `behind` others behind it."""
    axis = x.ndim - behind - 1
    if out is None:
        out = xp.empty((*x.shape[:axis], table.number, *x.shape[axis + 1 :]), x.dtype)
    dense = len(table.taps) > 2 and table.number * table.size <= _MOST_OF_MATRIX
    if dense and x.dtype.kind == "f" and is_finite(x):
        return _times(xp, x, table.matrix(x.dtype), behind, out)
    rest = (slice(None),) * behind
    if table.runs is not None:
        for row, column, length in table.runs:
            source = x[(..., slice(column, column + length), *rest)]
            out[(..., slice(row, row + length), *rest)] = source
        return out
    filled = False
    for (where, columns, _), scale in zip(table.taps, table.weights(x.dtype), strict=True):
        # Every column exists; with "clip" NumPy writes to `out` directly.
        first = where is None and not filled
        part = x.take(columns, axis, out=out if first else None, mode="clip")
        if scale is not None:
            part *= scale.reshape(-1, *(1,) * behind)
        if where is not None and not filled:
            out[...] = 0
        if where is not None:
            out[(..., where, *rest)] += part
        elif filled:
            out += part
        filled = True
    if not filled:
        out[...] = 0
    return out


def _times(xp: Namespace, x: Array, matrix: Array, behind: int, out: Array) -> Array:
    if not behind:
        return xp.matmul(x, matrix.T, out=out)
    if behind == 1:
        return xp.matmul(matrix, x, out=out)
    lead, rest = x.shape[: x.ndim - behind - 1], volume(x.shape[x.ndim - behind :])
    lines = x.reshape(*lead, matrix.shape[1], rest)
    xp.matmul(matrix, lines, out=out.reshape(*lead, matrix.shape[0], rest))
    return out


@lru_cache(256)
def _transposed(tables: Tables) -> Tables:
    return tuple(None if table is None else table.transposed() for table in tables)


def declare_resample(name: str, node: str) -> Any:
    """The operator under the name that the graph is to show."""
    return linear(
        input=lambda g, tables: resample(g, _transposed(tables)),
        name=name,
        aten="",
        node=node,
        has_out=False,
        method=False,
    )(keeps_format(_resampled))


resample: Any = declare_resample("resample", "ResampleBackward0")
