"""scatter_reduce and index_reduce: what meets at one place is multiplied, averaged, compared.

Both come down to one kernel and one pair of rules, since `index_reduce` is `scatter_reduce` with
the index repeated over the other dimensions. Each element of `src` reaches one element of the
result, so the tangent uses the weights that the reverse rules find for a gradient of ones.
"""

from __future__ import annotations

from typing import Any

from pullback.core.arrays import Array
from pullback.core.tensor import Tensor
from pullback.operators.arrays.scatter import check_index_dtype, reduce_along, write_along
from pullback.operators.batching import together
from pullback.operators.declare import METHODS, Dim, Namespace, primitive
from pullback.operators.indexing import batch as batch_indexing
from pullback.operators.indexing.gather import (
    check_along,
    corner,
    enlarged,
    fill_along,
    gather,
    lined_up,
    scatter_add,
)
from pullback.operators.indexing.rows import check_rows, spread, upright
from pullback.operators.indexing.selection import where
from pullback.operators.pointwise.arithmetic import zeros_of
from pullback.operators.reduce.scan import recurrence, shifted
from pullback.operators.reduce.sorting import argsort
from pullback.operators.running.inplace import inplace_of
from pullback.operators.shape.tiling import flip
from pullback.operators.tensor.convert import astype

# Kernel ------------------------------------------------------------------------------------------


def _reduce_into(
    xp: Namespace, input: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool
) -> None:
    if reduce == "mean" and input.dtype.kind == "b":
        raise NotImplementedError("the mean of bools is not defined here; convert them first.")
    lines, flat = lined_up(input, index)
    values = corner(src, flat)
    if not include_self:
        # Of what is largest or smallest, any of the values will do to begin with.
        start = xp.asarray({"sum": 0, "mean": 0, "prod": 1}.get(reduce, values), lines.dtype)
        write_along(xp, lines, dim, flat, start)
    ufunc = {"prod": xp.multiply, "amax": xp.maximum, "amin": xp.minimum}.get(reduce, xp.add)
    reduce_along(xp, ufunc, lines, dim, flat, values)
    if reduce == "mean":
        count = xp.full(lines.shape, int(include_self), lines.dtype)
        reduce_along(xp, xp.add, count, dim, flat, xp.ones(flat.shape, lines.dtype))
        count = xp.maximum(count, 1)
        divide = xp.true_divide if lines.dtype.kind in "fcV" else xp.floor_divide
        divide(lines, count, out=lines)


# Rules -------------------------------------------------------------------------------------------


def _ties(
    input: Any, dim: int, index: Any, src: Any, include_self: bool, out: Any, dtype: Any
) -> Any:
    """Which elements of input and src equal the result at their place, and how many there are."""
    own = astype(input == out, dtype)
    if not include_self:
        own = fill_along(own, dim, index, 0)
        # What nothing was written to keeps its own value.
        own = own + astype(_count(own, dim, index) == 0, dtype)
    others = astype(src == gather(out, dim, index), dtype)
    return own, others, scatter_add(own, dim, index, others)


def _count(like: Any, dim: int, index: Any) -> Any:
    return scatter_add(zeros_of(like), dim, index, astype(index == index, like.dtype))


def _members(like: Any, dim: int, index: Any, include_self: bool) -> Any:
    """How many values each mean is of, at least 1."""
    count = _count(like, dim, index) + (1 if include_self else 0)
    return count + astype(count == 0, like.dtype)


def _others(input: Any, dim: int, index: Any, src: Any, include_self: bool) -> tuple[Any, ...]:
    """For products: inputs with ones for zeros, their product, which have no zero beside them."""
    own = where(input == 0, zeros_of(input) + 1, input)
    others = where(src == 0, zeros_of(src) + 1, src)
    product = scatter_reduce(own, dim, index, others, "prod", include_self=include_self)
    own_zero, other_zero = astype(input == 0, input.dtype), astype(src == 0, src.dtype)
    counted = own_zero if include_self else fill_along(own_zero, dim, index, 0)
    zeros = scatter_add(counted, dim, index, other_zero)
    alone = astype(zeros == counted, input.dtype)
    beside = astype(gather(zeros, dim, index) == other_zero, src.dtype)
    return own, others, product, alone, beside


def _slope_of_input(input: Any, dim: int, index: Any, src: Any, include_self: bool) -> Any:
    if isinstance(src, Tensor):
        ones = zeros_of(input) + 1
        return scatter_reduce(ones, dim, index, src, "prod", include_self=include_self)
    own, _, product, alone, _ = _others(input, dim, index, src, include_self)
    return product / own * alone


def _part_of_src(g: Any, input: Any, dim: int, index: Any, src: Any, include_self: bool) -> Any:
    if isinstance(src, Tensor):
        g = g * input if include_self else g
        return gather(g, dim, index) * _products_of_others(dim, index, src)
    _, others, product, _, beside = _others(input, dim, index, src, include_self)
    return gather(g * product, dim, index) / others * beside


def _products_of_others(dim: int, index: Any, src: Any) -> Any:
    """At each element of `src` the product of those that go to the same place, itself left out.

    Those before it times those after it: no quotient, so that zeros keep all their derivatives.
    """
    order = argsort(index, dim)
    values, places = gather(src, dim, order), gather(index, dim, order)
    again = places == shifted(places, dim, 1, -1)
    before = _running_products(dim, values, again)
    again = flip(shifted(astype(again, values.dtype), dim, -1), (dim,)) != 0
    after = flip(_running_products(dim, flip(values, (dim,)), again), (dim,))
    return gather(before * after, dim, argsort(order, dim))


def _running_products(dim: int, values: Any, again: Any) -> Any:
    """Products of all earlier values of a run; `again` tells which places continue a run."""
    again = astype(again, values.dtype)
    return recurrence(shifted(values, dim, 1) * again, 1 - again, dim)


def _to_input(
    g: Any, input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool, out: Any
) -> Any:
    src = corner(src, index)
    if reduce == "mean":
        g = g / _members(g, dim, index, include_self)
    elif reduce in ("amax", "amin"):
        own, _, count = _ties(input, dim, index, src, include_self, out, g.dtype)
        g = g * own / count
    elif reduce == "prod":
        g = g * _slope_of_input(input, dim, index, src, include_self)
    return g if include_self else fill_along(g, dim, index, 0)


def _to_src(
    g: Any, input: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool, out: Any
) -> Any:
    shape = src.shape
    src = corner(src, index)
    if reduce == "mean":
        part = gather(g / _members(g, dim, index, include_self), dim, index)
    elif reduce in ("amax", "amin"):
        _, others, count = _ties(input, dim, index, src, include_self, out, g.dtype)
        part = others * gather(g / count, dim, index)
    elif reduce == "prod":
        part = _part_of_src(g, input, dim, index, src, include_self)
    else:
        part = gather(g, dim, index)
    return enlarged(part, shape)


def _tangent(
    d_input: Any,
    d_src: Any,
    input: Any,
    dim: int,
    index: Any,
    src: Any,
    reduce: str,
    include_self: bool,
    out: Any,
) -> Any:
    ones = zeros_of(out) + 1
    known = (input, dim, index, src, reduce, include_self, out)
    total = zeros_of(out) if d_input is None else d_input * _to_input(ones, *known)
    if d_src is None:
        return total
    return scatter_add(total, dim, index, corner(d_src * _to_src(ones, *known), index))


# Operators ---------------------------------------------------------------------------------------


def _write_scatter_reduce(
    xp: Namespace, input: Array, dim: int, index: Array, src: Array, reduce: str, include_self: bool
) -> None:
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"scatter_reduce: reduce must be sum, prod, mean, amax or amin, got {reduce!r}."
        )
    if index.size:
        check_along("scatter_reduce", input, dim, index, src)
        _reduce_into(xp, input, dim, index, src, reduce, include_self)


@primitive(
    batch=together,
    input=_to_input,
    src=_to_src,
    jvp=_tangent,
    aten="scatter_reduce.two",
    apart=True,
)
def scatter_reduce(
    xp: Namespace,
    input: Array,
    dim: Dim,
    index: Array,
    src: Array,
    reduce: str,
    *,
    include_self: bool = True,
) -> Array:
    """Combine the elements of `src` at the places that `index` names along `dim`.

    `reduce` is sum, prod, mean, amax or amin; what `input` holds there counts too if
    `include_self`. Tied largest or smallest elements share the gradient evenly.

    >>> import pullback as torch
    >>> index, src = torch.tensor([0, 0, 1]), torch.tensor([1.0, 2.0, 3.0])
    >>> torch.zeros(2).scatter_reduce(0, index, src, "amax")
    tensor([2., 3.])
    """
    out = xp.array(input, order="C")  # not .copy(): in a pass 0-d arrays may be NumPy scalars
    _write_scatter_reduce(xp, out, dim, index, src, reduce, include_self)
    return out


# The rules need what was there before, so these compute and then write.
scatter_reduce_ = METHODS["scatter_reduce_"] = inplace_of(scatter_reduce)


def _write_index_reduce(
    xp: Namespace,
    input: Array,
    dim: int,
    index: Array,
    source: Array,
    reduce: str,
    include_self: bool,
) -> None:
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce: reduce must be prod, mean, amax or amin, got {reduce!r}."
        )
    check_index_dtype("index_reduce", index)
    check_rows("index_reduce", input, dim, index, source, bounds=IndexError)
    if source.size:
        places = xp.broadcast_to(upright(index, dim, source.ndim), source.shape)
        _reduce_into(xp, input, dim, places, source, reduce, include_self)


def _index_to_input(
    g: Any, input: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool, out: Any
) -> Any:
    places = spread(index, dim, source.shape)
    return _to_input(g, input, dim, places, source, reduce, include_self, out)


def _index_to_source(
    g: Any, input: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool, out: Any
) -> Any:
    places = spread(index, dim, source.shape)
    return _to_src(g, input, dim, places, source, reduce, include_self, out)


def _index_tangent(
    d_input: Any,
    d_source: Any,
    input: Any,
    dim: int,
    index: Any,
    source: Any,
    reduce: str,
    include_self: bool,
    out: Any,
) -> Any:
    places = spread(index, dim, source.shape)
    return _tangent(d_input, d_source, input, dim, places, source, reduce, include_self, out)


@primitive(
    batch=batch_indexing.rows,
    input=_index_to_input,
    source=_index_to_source,
    jvp=_index_tangent,
    apart=True,
)
def index_reduce(
    xp: Namespace,
    input: Array,
    dim: Dim,
    index: Array,
    source: Array,
    reduce: str,
    *,
    include_self: bool = True,
) -> Array:
    """Combine slices of `source` into the slices of `input` that `index` names along `dim`.

    `reduce` is prod, mean, amax or amin; what `input` holds there counts too if `include_self`.

    >>> import pullback as torch
    >>> torch.index_reduce(torch.ones(2), 0, torch.tensor([0, 0]), torch.tensor([2.0, 3.0]), "prod")
    tensor([6., 1.])
    """
    out = xp.array(input, order="C")  # not .copy(): in a pass 0-d arrays may be NumPy scalars
    _write_index_reduce(xp, out, dim, index, source, reduce, include_self)
    return out


index_reduce_ = METHODS["index_reduce_"] = inplace_of(index_reduce)
