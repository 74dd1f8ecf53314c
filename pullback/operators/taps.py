"""Weighted sums along dimensions by a table: what interpolation, padding and adaptive pools share.

A table says for each output position which inputs it is made of and with which weights. The adjoint
of such a sum is one by the transposed table, so a single operator serves every order of derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.operators.declare import Namespace, linear

__all__ = ["Taps", "declare_resample", "resample"]


class Taps:
    """A sparse matrix of `number` rows and `size` columns; the t-th entry of each row is a tap.

    A tap is `(rows, columns, weights)`: rows is None where every row has one, weights is None where
    all are 1.
    """

    __slots__ = ("_casts", "_transposed", "number", "runs", "size", "taps")

    def __init__(self, rows: Any, columns: Any, weights: Any, number: int, size: int) -> None:
        rows, columns = numpy.asarray(rows, numpy.intp), numpy.asarray(columns, numpy.intp)
        order = numpy.argsort(rows, kind="stable")
        rows, columns = rows[order], columns[order]
        weights = None if weights is None else numpy.asarray(weights, numpy.float64)[order]
        slots = numpy.arange(rows.size) - numpy.searchsorted(rows, rows)
        self.number, self.size = number, size
        self.taps: list[tuple[Any, Any, Any]] = []
        for slot in range(int(slots.max()) + 1 if rows.size else 0):
            chosen = slots == slot
            where = None if int(chosen.sum()) == number else rows[chosen]
            scale = None if weights is None else weights[chosen]
            self.taps.append((where, columns[chosen], scale))
        # A plain look-up in few runs of memory is copied run by run: first row, column, length.
        self.runs: list[tuple[int, int, int]] | None = None
        if len(self.taps) == 1 and self.taps[0][0] is None and weights is None:
            self.runs = _runs(self.taps[0][1])
        self._transposed: Taps | None = None
        self._casts: dict[Any, list[Any]] = {}

    def transposed(self) -> Taps:
        """The table of the adjoint; made once."""
        if self._transposed is None:
            every = numpy.arange(self.number)
            rows = [every if where is None else where for where, _, _ in self.taps]
            columns = [column for _, column, _ in self.taps]
            scales = [scale for _, _, scale in self.taps]
            weights = None if any(scale is None for scale in scales) else _joined(scales)
            self._transposed = Taps(
                _joined(columns), _joined(rows), weights, self.size, self.number
            )
            self._transposed._transposed = self
        return self._transposed

    def weights(self, dtype: Any) -> list[Any]:
        """The weights of each tap in a dtype."""
        known = self._casts.get(dtype)
        if known is None:
            known = [None if scale is None else scale.astype(dtype) for _, _, scale in self.taps]
            self._casts[dtype] = known
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


def _along(xp: Namespace, x: Array, table: Taps, behind: int) -> Array:
    """Apply a table along the dimension that has `behind` others behind it."""
    axis = x.ndim - behind - 1
    rest = (slice(None),) * behind
    if table.runs is not None:
        out = xp.empty((*x.shape[:axis], table.number, *x.shape[axis + 1 :]), x.dtype)
        for row, column, length in table.runs:
            source = x[(..., slice(column, column + length), *rest)]
            out[(..., slice(row, row + length), *rest)] = source
        return out
    out = None
    for (where, columns, _), scale in zip(table.taps, table.weights(x.dtype), strict=True):
        part = x.take(columns, axis)
        if scale is not None:
            part *= scale.reshape(-1, *(1,) * behind)
        if where is None:
            out = part if out is None else xp.add(out, part, out=out)
            continue
        if out is None:
            out = xp.zeros((*x.shape[:axis], table.number, *x.shape[axis + 1 :]), x.dtype)
        out[(..., where, *rest)] += part
    if out is None:
        out = xp.zeros((*x.shape[:axis], table.number, *x.shape[axis + 1 :]), x.dtype)
    return out


def _resampled(xp: Namespace, input: Array, tables: Sequence[Taps | None]) -> Array:
    """Apply a table along each of the last dimensions; None leaves one as it is."""
    if input.dtype.itemsize == 2 and input.dtype.kind in "fV":
        return _resampled(xp, input.astype(xp.float32), tables).astype(input.dtype)
    behind = range(len(tables) - 1, -1, -1)
    steps = [(b, table) for b, table in zip(behind, tables, strict=True) if table is not None]
    # What shrinks goes first; what grows starts with the last dimension, where elements are
    # gathered one by one.
    shrinking = [step for step in steps if step[1].number < step[1].size]
    growing = [step for step in reversed(steps) if step[1].number >= step[1].size]
    for b, table in (*shrinking, *growing):
        input = _along(xp, input, table, b)
    return input if steps else input.copy()


def _transposed(tables: Any) -> tuple[Taps | None, ...]:
    return tuple(None if table is None else table.transposed() for table in tables)


def declare_resample(name: str, node: str) -> Any:
    """The operator under the name that the graph is to show."""
    return linear(
        input=lambda g, tables: resample(g, _transposed(tables)),
        name=name,
        node=node,
        has_out=False,
        method=False,
    )(_resampled)


resample: Any = declare_resample("resample", "ResampleBackward0")
