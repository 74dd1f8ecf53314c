"""Euclidean distances between all pairs of rows.

Many rows meet in one product of matrices, |a - b|^2 = |a|^2 + |b|^2 - 2 a b, which needs no tensor
of all differences. Rows are taken relative to their mean first, and pairs so close that the squares
cancel are computed anew from their difference: the result is as good as the direct one.
"""

from __future__ import annotations

from typing import Any

from pullback.core.errors import unsupported
from pullback.operators.arrays.formats import ordered
from pullback.operators.batching import aligned
from pullback.operators.declare import Array, Namespace, primitive
from pullback.operators.linalg.products import matmul
from pullback.operators.reduce.norms import divide_or_zero
from pullback.operators.reduce.sums import mean, sum
from pullback.operators.shape.reshaping import transpose, unsqueeze

__all__ = ["euclidean_between"]

_FEW_ROWS = 25  # up to which differences are taken, unless the user says otherwise
_CLOSE = 1e-2  # of the squared lengths: below this share of them, squares have lost two digits


def _multiplies(first: Any, second: Any, compute_mode: int | None) -> bool:
    rows = first.shape[-2], second.shape[-2]
    wanted = max(rows) > _FEW_ROWS if compute_mode is None else compute_mode == 1
    return wanted and min(rows) > 0


def _directly(xp: Namespace, first: Array, second: Array) -> Array:
    apart = first[..., :, None, :] - second[..., None, :, :]
    return xp.sqrt(xp.vecdot(apart, apart))


def _by_products(xp: Namespace, first: Array, second: Array) -> Array:
    centre = second.mean(-2, keepdims=True)
    first, second = first - centre, second - centre
    lengths = xp.vecdot(first, first)[..., :, None] + xp.vecdot(second, second)[..., None, :]
    squares = xp.matmul(first, second.swapaxes(-1, -2))
    squares *= -2
    squares += lengths
    lengths *= _CLOSE
    close = xp.nonzero(squares < lengths)
    if close[0].size:
        *batch, row, column = close
        lead = squares.shape[:-2]
        left = xp.broadcast_to(first, (*lead, *first.shape[-2:]))[(*batch, row)]
        right = xp.broadcast_to(second, (*lead, *second.shape[-2:]))[(*batch, column)]
        left -= right
        squares[close] = xp.vecdot(left, left)
    return xp.sqrt(squares, out=squares)


# Rules --------------------------------------------------------------------------------------------


def _pull(g: Any, own: Any, other: Any, out: Any, compute_mode: int | None) -> Any:
    """Each row is pulled along its differences from the others; `g` and `out` have its rows first.

    Moving all rows together changes nothing, so the products may start from any centre.
    """
    weight = divide_or_zero(g, out)
    if not _multiplies(own, other, compute_mode):
        return sum(unsqueeze(weight, -1) * (unsqueeze(own, -2) - unsqueeze(other, -3)), -2)
    centre = mean(other, -2, True)
    return (own - centre) * sum(weight, -1, True) - matmul(weight, other - centre)


def _tangent(d_first: Any, d_second: Any, first: Any, second: Any, out: Any) -> Any:
    change: Any = 0
    if d_first is not None:
        change = sum(first * d_first, -1, True) - matmul(d_first, transpose(second, -1, -2))
    if d_second is not None:
        moved = unsqueeze(sum(second * d_second, -1), -2)
        change = change + moved - matmul(first, transpose(d_second, -1, -2))
    return divide_or_zero(change, out)


@primitive(
    x1=lambda g, x1, x2, out, compute_mode: _pull(g, x1, x2, out, compute_mode),
    x2=lambda g, x1, x2, out, compute_mode: _pull(
        transpose(g, -1, -2), x2, x1, transpose(out, -1, -2), compute_mode
    ),
    jvp=lambda d_x1, d_x2, x1, x2, out: _tangent(d_x1, d_x2, x1, x2, out),
    batch=aligned,
    node="CdistBackward0",
    has_out=False,
    method=False,
    aten="_cdist_forward.default",
)
@ordered
def euclidean_between(
    xp: Namespace, x1: Array, x2: Array, p: float, compute_mode: int | None
) -> Array:
    """How far each row of `x1` is from each of `x2`; leading dimensions broadcast.

    `compute_mode` 1 asks for products, 2 for differences. `p`, always 2, is what torch shows.
    """
    if x1.dtype.kind not in "fV":
        raise unsupported("cdist", x1)
    distances = _by_products if _multiplies(x1, x2, compute_mode) else _directly
    if x1.dtype.itemsize == 2:
        single = [rows.astype(xp.float32) for rows in (x1, x2)]
        return distances(xp, *single).astype(x1.dtype)
    return distances(xp, x1, x2)
