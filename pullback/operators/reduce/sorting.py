"""Sorting, the first few in order, and searching in what is sorted."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.addresses import finds_indices
from pullback.core.dtype import from_numpy_dtype
from pullback.core.errors import unsupported
from pullback.core.tensor import Tensor, wrap
from pullback.operators.arrays.formats import ordered
from pullback.operators.arrays.reductions import check_keepdim, check_not_empty
from pullback.operators.arrays.row_major import in_order
from pullback.operators.arrays.scatter import read_along
from pullback.operators.arrays.sorting import (
    FEW,
    chosen,
    few_in_order,
    order_along,
    ranked,
    ranks,
    searched,
)
from pullback.operators.conditions import at_most, below, has_dims, host, real, says
from pullback.operators.declare import (
    REQUIRED,
    Array,
    Dim,
    Namespace,
    kernel,
    method,
    primitive,
    quick,
)
from pullback.operators.indexing import batch as batch_indexing
from pullback.operators.indexing.picking import pick, put_back
from pullback.operators.options import as_int, numpy_named, operand
from pullback.operators.reduce.extremes import pick_chosen, put_back_chosen
from pullback.operators.results import result_class

FOUND_IN = {"torch": "bucketize isin kthvalue msort searchsorted sort topk"}


def check_ordered(op: str, input: Array, kinds: str = "c") -> None:
    """Refuse elements that have no order (or none that torch knows)."""
    if input.dtype.kind in kinds:
        raise RuntimeError(f"{op}: not defined for {from_numpy_dtype(input.dtype)}; convert first.")


# Sorting ------------------------------------------------------------------------------------------


def put_back_sorted(g_values: Any, indices: Any, input_shape: Any, dim: int) -> Any:
    """The gradient of rearranged elements at the places they came from."""
    return put_back(g_values, indices, input_shape[dim] if input_shape else 1, dim)


def _pick_sorted(d_input: Any, indices: Any, dim: int) -> Any:
    return pick(d_input, indices, dim), None


def _sort(xp: Namespace, input: Array, dim: Dim = -1, descending: bool = False) -> Any:
    check_ordered("sort", input)
    if not input.ndim:
        return input.copy(), xp.zeros((), xp.int64)
    indices = order_along(xp, input, dim, descending=descending)
    return read_along(xp, input, dim, indices), indices


_declared: dict[str, Any] = {
    "input": put_back_sorted,
    "jvp": _pick_sorted,
    "outputs": "values indices",
    "fixed": "indices",
    "method": False,
    "meta": "lengths kept",
}
_sort_default = primitive(**_declared, name="sort", node="SortBackward0")(_sort)
_sort_stable = primitive(
    **_declared,
    name="sort.stable",
    aten="sort.stable(input * dim descending)",
    node="SortBackward1",
)(_sort)


@kernel(
    _sort_default, _sort_stable, when=host & has_dims & below(FEW) & real & says("not descending")
)
def _few_in_order(xp: Namespace, input: Array, dim: int) -> tuple[Array, Array]:
    return few_in_order(xp, input, dim)


_SortResult = result_class("sort", "values indices")


@method
@quick
@numpy_named
def sort(
    input: Any = REQUIRED,
    dim: int = -1,
    descending: bool = False,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    *,
    stable: bool | None = None,
    out: Any = None,
    axis: int | None = None,
) -> Any:
    """The elements sorted along `dim`, and their indices; equal elements keep their order.

    >>> import pullback as torch
    >>> torch.sort(torch.tensor([3.0, 1.0, 2.0])).indices
    tensor([1, 2, 0])
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("sort", "input", input, x=x, a=a, x1=x1)
    if descending is not False:
        _check_descending("sort", descending)
    function = _sort_default if stable is None else _sort_stable
    found = function(input, dim, descending, out=out, axis=axis)
    return _SortResult.of(found) if found.__class__ is tuple else found  # which somebody took


def _check_descending(op: str, descending: Any) -> None:
    if descending is not True and descending is not False:
        raise TypeError(f"{op}(): argument `descending` must be bool, got {descending!r}.")


@primitive(meta="lengths kept")
def argsort(
    xp: Namespace, input: Array, dim: Dim = -1, descending: bool = False, *, stable: bool = False
) -> Array:
    """The indices that put the elements in order along `dim`; equal ones keep their order.

    >>> import pullback as torch
    >>> torch.argsort(torch.tensor([3.0, 1.0, 2.0]), descending=True)
    tensor([0, 2, 1])
    """
    check_ordered("argsort", input)
    _check_descending("argsort", descending)
    if not input.ndim:
        return xp.zeros((), xp.int64)
    return order_along(xp, input, dim, descending=descending)


@kernel(
    argsort,
    when=host & has_dims & below(FEW) & says("input_dtype.kind in 'fiu'", "descending is False"),
)
@finds_indices()
def _few_argsorted(input: Array, dim: int) -> Array:
    return input.argsort(dim, kind="stable")


@method
def msort(input: Any, *, out: Any = None) -> Any:
    """The elements in order along the first dimension.

    >>> import pullback as torch
    >>> torch.msort(torch.tensor([[3, 1], [2, 4]]))
    tensor([[2, 1],
            [3, 4]])
    """
    return sort(input, 0).values if out is None else _sorted_into(input, out)


def _sorted_into(input: Any, out: Any) -> Any:
    indices = wrap(numpy.empty(0, "i8"))
    return _sort_default(input, 0, out=(out, indices))[0]


# The first few ------------------------------------------------------------------------------------


@primitive(
    input=put_back_sorted,
    jvp=_pick_sorted,
    outputs="values indices",
    fixed="indices",
    name="topk",
    method=False,
)
def _topk(
    xp: Namespace, input: Array, k: int, dim: Dim = -1, largest: bool = True, sorted: bool = True
) -> Any:
    check_ordered("topk", input, "bc")
    size = input.shape[dim] if input.ndim else 1
    if not 0 <= k <= size:
        raise RuntimeError(
            f"topk: k is {k}, but dim {dim} of shape {input.shape} has {size} elements."
        )
    if not input.ndim:
        return input.copy(), xp.zeros((), xp.int64)
    return chosen(xp, input, k, dim, largest=largest, ordered=sorted)


_TopkResult = result_class("topk", "values indices")


@method
@quick
@numpy_named
def topk(
    input: Any = REQUIRED,
    k: int = REQUIRED,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    *,
    out: Any = None,
    axis: int | None = None,
) -> Any:
    """The `k` largest (or smallest) elements along `dim` and their indices.

    >>> import pullback as torch
    >>> torch.topk(torch.tensor([3.0, 1.0, 2.0]), 2).values
    tensor([3., 2.])
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("topk", "input", input, x=x, a=a, x1=x1)
    if k.__class__ is not int:
        k = as_int(k, "topk", "k")
    if out is None and axis is None:  # keywords cost every call 0.04 us
        found = _topk(input, k, dim, largest, sorted)
    else:
        found = _topk(input, k, dim, largest, sorted, out=out, axis=axis)
    return _TopkResult.of(found) if found.__class__ is tuple else found  # which somebody took


@primitive(
    input=put_back_chosen,
    jvp=pick_chosen,
    outputs="values indices",
    fixed="indices",
    name="kthvalue",
    method=False,
)
def _kthvalue(xp: Namespace, input: Array, k: int, dim: Dim = -1, keepdim: bool = False) -> Any:
    check_not_empty("kthvalue", input, dim if input.ndim else None)
    if input.dtype.kind in "bc":
        raise unsupported("kthvalue", input)
    size = input.shape[dim] if input.ndim else 1
    if not 0 < k <= size:
        raise RuntimeError(
            f"kthvalue: k is {k}, but dim {dim} of shape {input.shape} has {size} elements."
        )
    if not input.ndim:
        return input.copy(), xp.zeros((), xp.int64)
    return ranked(xp, input, k - 1, dim, keepdim)


_KthvalueResult = result_class("kthvalue", "values indices")


@method
def kthvalue(
    input: Any,
    k: int,
    dim: int = -1,
    keepdim: bool = False,
    *,
    out: Any = None,
    axis: int | None = None,
    keepdims: bool | None = None,
) -> Any:
    """The `k`-th smallest element along `dim`, counted from 1, and its index.

    >>> import pullback as torch
    >>> torch.kthvalue(torch.tensor([3.0, 1.0, 2.0]), 2)
    torch.return_types.kthvalue(
    values=tensor(2.),
    indices=tensor(2))
    """
    check_keepdim("kthvalue", keepdim)
    k = as_int(k, "kthvalue", "k")
    given = _kthvalue(input, k, dim, keepdim, out=out, axis=axis, keepdims=keepdims)
    return _KthvalueResult.of(given)


# Searching ----------------------------------------------------------------------------------------


@primitive(batch=batch_indexing.searched, method=False, numbers="input", aten="searchsorted.Tensor")
def searchsorted(
    xp: Namespace,
    sorted_sequence: Array,
    input: Array,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Array | None = None,
) -> Array:
    """Where each element of `input` belongs in `sorted_sequence`, so that it stays sorted.

    >>> import pullback as torch
    >>> torch.searchsorted(torch.tensor([1, 3, 5]), torch.tensor([3, 4]))
    tensor([1, 2])
    """
    if sorted_sequence.ndim == 1 and side is None and sorter is None and not out_int32:
        return searched(xp, sorted_sequence, input, "right" if right else "left")
    if side not in (None, "left", "right") or (side == "left" and right):
        raise RuntimeError(
            f"searchsorted: side is {side!r} and right {right}; side must be 'left' or 'right' "
            "and agree."
        )
    values = xp.asarray(input)
    if sorted_sequence.ndim != 1 and sorted_sequence.shape[:-1] != values.shape[:-1]:
        raise RuntimeError(
            f"searchsorted: a sequence of shape {sorted_sequence.shape} and values of shape "
            f"{values.shape}; the sequence must be 1-d, or all dimensions but the last must be "
            "equal."
        )
    if not sorted_sequence.ndim or (sorted_sequence.ndim > 1 and not values.ndim):
        raise RuntimeError("searchsorted: a single value is searched in a 1-d sequence only.")
    if sorter is not None:
        sorted_sequence = _sorted_by(xp, sorted_sequence, sorter)
    places = ranks(xp, sorted_sequence, values, "right" if right or side == "right" else "left")
    return xp.asarray(places, xp.int32 if out_int32 else xp.int64)


def _sorted_by(xp: Namespace, sequence: Array, sorter: Array) -> Array:
    if sorter.shape != sequence.shape or sorter.dtype != xp.int64:
        raise RuntimeError(
            "searchsorted: the sorter must be int64 and have the sequence's shape "
            f"{sequence.shape}, got {from_numpy_dtype(sorter.dtype)} and {sorter.shape}."
        )
    return read_along(xp, sequence, sequence.ndim - 1, sorter)


def bucketize(
    input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False, out: Any = None
) -> Any:
    """The number of the bucket between `boundaries` that each element falls into.

    >>> import pullback as torch
    >>> torch.bucketize(torch.tensor([0.5, 3.0, 9.0]), torch.tensor([1.0, 3.0, 5.0]))
    tensor([0, 1, 3])
    """
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"bucketize: boundaries must be 1-d, got shape {tuple(boundaries.shape)}."
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


def isin(
    elements: Any,
    test_elements: Any,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    out: Any = None,
) -> Any:
    """Whether each element is among `test_elements`; one of the two may be a number.

    >>> import pullback as torch
    >>> torch.isin(torch.tensor([1, 2, 3]), torch.tensor([2, 5]))
    tensor([False,  True, False])
    """
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin(): `elements` or `test_elements` must be a Tensor.")
    return _isin(elements, test_elements, assume_unique=assume_unique, invert=invert, out=out)


_FEW_PAIRS = 4096  # so many are compared sooner than sorted: 4 us for 100, where isin takes 25


@primitive(batch=batch_indexing.contained, numbers=True, method=False)
@ordered
def _isin(
    xp: Namespace, elements: Array, test_elements: Array, *, assume_unique: bool, invert: bool
) -> Array:
    elements, test_elements = xp.asarray(elements), xp.asarray(test_elements)
    for array in (elements, test_elements):
        check_ordered("isin", array, "bc")
    return xp.isin(elements, test_elements, assume_unique=assume_unique, invert=invert)


@kernel(
    _isin,
    when=host
    & says("ndarray is type(elements) is type(test_elements)", ndarray=numpy.ndarray)
    & says("elements_dtype.kind not in 'bc'", "test_elements_dtype.kind not in 'bc'")
    & at_most(_FEW_PAIRS, "elements_size * test_elements_size"),
)
def _each_pair(elements: Array, test_elements: Array, invert: bool) -> Array:
    found = in_order((elements[..., None] == test_elements.reshape(-1)).any(-1))
    return ~found if invert else found
