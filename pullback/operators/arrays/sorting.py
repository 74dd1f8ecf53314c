"""Orders of arrays: stable ones at the speed of NumPy's unstable sort, and the first few."""

from __future__ import annotations

from typing import Any

from pullback.core.addresses import finds_indices
from pullback.core.arrays import F32, Array, Namespace
from pullback.operators.arrays.scatter import read_along

__all__ = [
    "FEW",
    "chosen",
    "few_in_order",
    "has_nan",
    "order_along",
    "ranked",
    "ranks",
    "sortable",
    "within",
]

# From here on packed keys beat NumPy's stable argsort: a million float32 take 15 ms, where that
# takes 136 and the unstable one 36.
FEW = 2048


def sortable(xp: Namespace, input: Array) -> Array:
    """What NumPy can sort: it does not know where the NaN of bfloat16 belongs."""
    return input.astype(xp.float32) if input.dtype.kind == "V" else input


@finds_indices()
def order_along(xp: Namespace, input: Array, dim: int, *, descending: bool) -> Array:
    """Indices that sort `input` along `dim`; equal elements keep their order, NaN is largest."""
    input = sortable(xp, input)
    if input.size < FEW and not descending:
        return input.argsort(dim, kind="stable")
    rows = input.swapaxes(dim, -1)
    if descending:  # turned around twice, equal elements keep their order
        order = _order(xp, rows[..., ::-1])
        order = rows.shape[-1] - 1 - order[..., ::-1]
    else:
        order = _order(xp, rows)
    return xp.ascontiguousarray(order.swapaxes(dim, -1))


def _order(xp: Namespace, rows: Array) -> Array:
    if rows.size < FEW or rows.shape[-1] >= 2**31 or rows.dtype.kind not in "biuf":
        return rows.argsort(-1, kind="stable")
    if rows.dtype.itemsize <= 4 and rows.dtype.char != "I":
        return _order_by_keys(xp, rows)
    return _order_by_runs(xp, rows)


def _order_by_keys(xp: Namespace, rows: Array) -> Array:
    """Elements of at most 32 bits in front of their index, in one integer of 64."""
    if rows.dtype.kind == "f":
        rows = rows.astype(xp.float32) + xp.float32(0)  # -0.0 equals 0.0
        nan = rows != rows
        if nan.any():
            rows[nan] = xp.nan  # the positive one, whose bits are largest
        bits = rows.view(xp.int32)
        whole = bits ^ ((bits >> 31) & xp.int32(0x7FFFFFFF))
    else:
        whole = rows
    keys = whole.astype(xp.int64)
    keys <<= 32
    keys |= xp.arange(rows.shape[-1])
    keys.sort(-1)
    keys &= 0xFFFFFFFF
    return keys


def _order_by_runs(xp: Namespace, rows: Array) -> Array:
    """An unstable order, then the indices within runs of equal elements sorted."""
    order = rows.argsort(-1)
    values = rows[within(xp, order)]
    later, earlier = values[..., 1:], values[..., :-1]
    changes = later != earlier
    if rows.dtype.kind == "f":
        changes &= (later == later) | (earlier == earlier)  # NaN after NaN is no change
    if changes.all():
        return order
    keys = xp.zeros(rows.shape, xp.int64)
    xp.add.accumulate(changes, -1, xp.int64, out=keys[..., 1:])
    keys <<= 32
    keys |= order
    keys.sort(-1)
    keys &= 0xFFFFFFFF
    return keys


def within(xp: Namespace, index: Array) -> tuple[Any, ...]:
    """The key that takes `index` along the last dimension, own positions elsewhere."""
    places = [
        xp.arange(n).reshape((n,) + (1,) * (index.ndim - 1 - d))
        for d, n in enumerate(index.shape[:-1])
    ]
    return (*places, index)


# The first few ------------------------------------------------------------------------------------


@finds_indices(1)
def few_in_order(xp: Namespace, input: Array, dim: int) -> tuple[Array, Array]:
    """Less than FEW elements in order along `dim`, and where they were."""
    order = sortable(xp, input).argsort(dim, kind="stable")
    if input.ndim == 1 and input.dtype.kind != "V":
        return input[order], order
    if input.dtype.kind == "V":
        return read_along(xp, input, dim, order), order
    values = input.copy()
    values.sort(dim, kind="stable")  # half of what it takes to read them by several indices
    return values, order


@finds_indices(1)
def chosen(
    xp: Namespace, input: Array, k: int, dim: int, *, largest: bool, ordered: bool
) -> tuple[Array, Array]:
    """The `k` largest or smallest elements along `dim`, and their indices; NaN is largest."""
    if input.size < FEW:
        if input.ndim == 1 and input.dtype.kind != "V":
            order = input.argsort(kind="stable")
            index = (order[: -k - 1 : -1] if largest else order[:k]).copy()
            return input[index], index
        values, order = few_in_order(xp, input, dim)
        first = (*(slice(None),) * dim, slice(None, -k - 1, -1) if largest else slice(k))
        return values[first].copy(), order[first].copy()
    rows = sortable(xp, input).swapaxes(dim, -1)
    size = rows.shape[-1]
    if k == 0:
        index = xp.zeros((*rows.shape[:-1], 0), xp.int64)
    elif k == size:
        index = xp.broadcast_to(xp.arange(size), rows.shape)
    else:
        index = _beyond(rows, k, largest=largest)
    if ordered and k:
        order = order_along(xp, rows[within(xp, index)], -1, descending=largest)
        index = index[within(xp, order)]
    index = xp.ascontiguousarray(index.swapaxes(dim, -1))
    return read_along(xp, input, dim, index), index


def _beyond(rows: Array, k: int, *, largest: bool) -> Array:
    """Indices of the `k` largest or smallest of each row, in any order; 0 < k < size."""
    size = rows.shape[-1]
    place = size - k if largest else k - 1
    if rows.dtype.kind == "f":
        # Values are partitioned three times as fast as indices; who is beyond the bound is chosen.
        bound = _partitioned(rows, place, -1)
        inside = rows >= bound if largest else rows <= bound
        found = inside.reshape(-1).nonzero()[0]
        if found.size == rows.size // size * k:  # no ties at the bound, no NaN
            return found.reshape(*rows.shape[:-1], k) % size
    index = rows.argpartition(place, -1)
    return index[..., place:] if largest else index[..., :k]


def _partitioned(input: Array, place: int, dim: int) -> Array:
    """The element that sorting puts at `place` along `dim`, which stays as one of size 1."""
    lines = input.copy()
    lines.partition(place, dim)
    return lines.swapaxes(dim, 0)[place : place + 1].swapaxes(dim, 0).copy()


@finds_indices(1)
def ranked(xp: Namespace, input: Array, place: int, dim: int, keepdim: Any) -> tuple[Array, Array]:
    """The element that sorting puts at `place` along `dim`, and an index where it stands."""
    if input.size < FEW or input.dtype.kind == "V":
        values, order = few_in_order(xp, input, dim)
        there = (*(slice(None),) * dim, slice(place, place + 1) if keepdim else place)
        return values[there].copy(), order[there].copy()
    values = _partitioned(input, place, dim)
    reached = input == values
    if input.dtype.kind == "f" and has_nan(xp, values):
        reached |= (input != input) & (values != values)
    return values if keepdim else values.squeeze(dim), reached.argmax(dim, keepdims=keepdim)


def has_nan(xp: Namespace, input: Array) -> bool:
    """Whether there is a NaN; a sum of squares is NaN exactly then, and BLAS is quick."""
    if input.dtype.char in "fd":
        flat = input.reshape(-1)
        squares = flat.dot(flat)
        return bool(squares != squares)
    return input.dtype.kind in "fV" and bool((input != input).any())


# Searching ----------------------------------------------------------------------------------------


@finds_indices()
def searched(xp: Namespace, sequence: Array, values: Any, side: str) -> Array:
    """NumPy's search in one sorted sequence.

    It goes on from the place of the value before, which the order of the dtypes of ml_dtypes does
    not allow beside a NaN; single precision holds all their numbers.
    """
    if sequence.dtype.kind == "V":
        sequence = sequence.astype(F32)
    if getattr(values, "dtype", sequence.dtype).kind == "V":
        values = values.astype(F32)
    return xp.searchsorted(sequence, values, side)


def ranks(xp: Namespace, sequence: Array, values: Array, side: str) -> Array:
    """Where `values` belong in sorted `sequence`, row by row of the last dimension.

    Rows are not searched one by one: both are sorted together, and the boundaries before each value
    counted.
    """
    if sequence.ndim == 1:
        return searched(xp, sequence, values, side)
    size = values.shape[-1]
    # Whichever comes first wins a tie, since the order is stable.
    parts = (values, sequence) if side == "left" else (sequence, values)
    merged = xp.concatenate(parts, -1)
    order = order_along(xp, merged, merged.ndim - 1, descending=False)
    is_value = order < size if side == "left" else order >= sequence.shape[-1]
    before = xp.add.accumulate(~is_value, -1, xp.int64)
    result = xp.empty(values.shape, xp.int64)
    places = order[is_value].reshape(values.shape) - (0 if side == "left" else sequence.shape[-1])
    result[within(xp, places)] = before[is_value].reshape(values.shape)
    return result
