"""Elements where indices say: `take` reads them, `place` writes or adds to them.

An index names a place along one dimension of a value in memory. An element of a `take` lies at the
sum of its own place, by strides that are 0 where an index stands, and of each index times the
stride of its dimension. `place` has the same elements, and the same sum says where they go: to
zeros, or to a copy of a value, one after the other.

An index that names nothing stops the program: it sets the fault, reads or writes elsewhere within
the value, and its results are not used. The eager kernels run then, and say what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val

__all__ = ["INDEXED", "along", "axes", "place", "take"]

INDEXED = frozenset({"take", "place"})
# Of an index: the size of its dimension, its stride, and whether negative ones count from the end.
Axis = tuple[Any, Any, bool]


def take(b: Builder, x: Val, shape: Any, strides: Any, indices: Sequence[Val], axes: Any) -> Val:
    """Elements of `x`; indices broadcast to `shape`."""
    x = b.copy(x) if b.strip(x).op in ("const", "iota") else x
    return b.make("take", (x, *indices), (tuple(strides), tuple(axes)), shape, x.dtype)


def place(
    b: Builder, whole: Val | None, shape: Any, part: Val, strides: Any, indices: Sequence[Val],
    axes: Any, *, adds: bool,
) -> Val:  # fmt: skip
    """`whole`, or zeros of `shape`, with the elements of `part` where indices say."""
    ins = [one for one in (part, *indices, whole) if one is not None]
    ins = [b.copy(one) if b.strip(one).op in ("const", "iota") else one for one in ins]
    attr = (tuple(strides), tuple(axes), adds, part.shape)
    return b.make("place", ins, attr, shape, part.dtype)


def axes(x: Any, strides: Any, dims: Any, *, wraps: bool) -> tuple[Axis, ...]:
    """Of a shape and strides: what indices along these dimensions go by."""
    return tuple((x[d], strides[d], wraps) for d in dims)


def along(strides: Any, dims: Any, rank: int) -> tuple[Any, ...]:
    """Strides over the elements of a take at dimensions that follow one another.

    In their place come as many dimensions as indices have.
    """
    return (*strides[: dims[0]], *(0,) * rank, *strides[dims[-1] + 1 :])
