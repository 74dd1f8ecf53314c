"""Each element once: over everything or along a dimension, anywhere or in a row."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core import errors
from pullback.core.addresses import as_indices
from pullback.core.arrays import Array, namespace
from pullback.core.device import META
from pullback.core.errors import unsupported
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.core.view import edge_of
from pullback.operators.arrays.sorting import order_along, sortable
from pullback.operators.declare import method
from pullback.operators.options import as_dim
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshape_inplace import unsupported_node

FOUND_IN = {"torch": "_unique _unique2 unique unique_consecutive"}


def _checked(op: str, input: Any, dim: int | None, **flags: Any) -> tuple[Array, int]:
    """The array, flat if no `dim` is given, and the dimension to go along."""
    if not isinstance(input, Tensor):
        raise errors.not_a_tensor(op, "input", input)
    for name, value in flags.items():
        if value is not True and value is not False:
            raise TypeError(f"{op}(): argument `{name}` must be bool, got {value!r}.")
    if input.device is META:
        raise errors.no_data(f"{op}()")
    array = input._array
    if array.dtype.kind == "c":
        raise unsupported(op, array)
    if dim is None:
        return array.reshape(-1), 0
    if not array.ndim:
        raise IndexError(f"{op}: dim {dim} does not exist in a 0-d tensor; leave `dim` away.")
    at = as_dim(dim, array.ndim, op)
    if 0 in array.shape and array.shape[at]:
        raise RuntimeError(
            f"{op}: the slices along dim {at} of shape {array.shape} have no elements to compare."
        )
    return array, at


def _answer(op: str, node: str, input: Tensor, arrays: tuple[Array | None, ...]) -> Any:
    """The values alone, or with what else was asked for; a gradient of the values is refused."""
    values, *places = [array for array in arrays if array is not None]
    results = wrap(values), *[wrap(as_indices(one)) for one in places]
    mode = get_mode()
    if mode.grad and not mode.inference and input.requires_grad:
        results[0]._node = unsupported_node(op, (edge_of(input),), results[0])
        shown_as(node, results[0])
    return results if len(results) > 1 else results[0]


@method
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Each element (or slice along `dim`) once, in order; where each went, and how often it came.

    >>> import pullback as torch
    >>> torch.unique(torch.tensor([3, 1, 3]), return_counts=True)
    (tensor([1, 3]), tensor([1, 2]))
    """
    flags = {"return_inverse": return_inverse, "return_counts": return_counts}
    array, at = _checked("unique", input, dim, sorted=sorted, **flags)
    if dim is None:
        found = _elements(array, input._array.shape, **flags)
        return _answer("unique", "Unique2Backward0", input, found)
    if array.size:
        values, inverse, counts = numpy.unique(
            array, return_inverse=True, return_counts=True, axis=at, equal_nan=False
        )
    else:
        values, inverse, counts = array, *numpy.zeros((2, 0), numpy.int64)
    more = inverse.reshape(-1) if return_inverse else None, counts if return_counts else None
    return _answer("unique", "UniqueDimBackward0", input, (values, *more))


def _elements(
    flat: Array, shape: tuple[int, ...], *, return_inverse: bool, return_counts: bool
) -> tuple[Array | None, ...]:
    """As `numpy.unique`, which takes five times as long where the values alone are wanted."""
    xp = namespace(flat)
    order = order_along(xp, flat, 0, descending=False) if return_inverse else None
    if order is not None:
        values = flat[order]
    else:
        values = sortable(xp, flat).copy()
        values.sort()
    first = xp.empty(flat.size, bool)
    first[:1] = True
    xp.not_equal(values[1:], values[:-1], first[1:])
    inverse = counts = None
    if order is not None:
        inverse = xp.empty(flat.size, numpy.int64)
        inverse[order] = xp.add.accumulate(first, 0, numpy.int64) - 1
        inverse = inverse.reshape(shape)
    if return_counts:
        counts = xp.diff(first.nonzero()[0], append=flat.size)
    return values[first].astype(flat.dtype, copy=False), inverse, counts


@method
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Runs of equal elements (or slices along `dim`) as one element each.

    >>> import pullback as torch
    >>> torch.unique_consecutive(torch.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    flags = {"return_inverse": return_inverse, "return_counts": return_counts}
    array, at = _checked("unique_consecutive", input, dim, **flags)
    xp = namespace(array)
    lines = xp.moveaxis(array, at, 0)
    starts = xp.ones(len(lines), bool)
    differ = lines[1:] != lines[:-1]
    starts[1:] = differ.reshape(len(differ), -1).any(1) if len(differ) else differ.reshape(0)
    inverse = counts = None
    if return_inverse:
        inverse = starts.cumsum() - 1
        inverse = inverse.reshape(input._array.shape) if dim is None else inverse
    if return_counts:
        counts = xp.diff(starts.nonzero()[0], append=len(lines))
    found = xp.moveaxis(lines[starts], 0, at), inverse, counts
    return _answer("unique_consecutive", "UniqueConsecutiveBackward0", input, found)


# The forms behind `unique`: always as many results, an empty one where nothing was asked for ------


def _unique(input: Tensor, sorted: bool = True, return_inverse: bool = False) -> Any:
    """The elements once each, and where each went."""
    array, _ = _checked("_unique", input, None, sorted=sorted, return_inverse=return_inverse)
    found = _elements(array, input._array.shape, return_inverse=return_inverse, return_counts=False)
    return _answer("_unique", "UniqueBackward0", input, _filled(found[:2]))


def _unique2(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    """The elements once each, where each went, and how often it came."""
    flags = {"return_inverse": return_inverse, "return_counts": return_counts}
    array, _ = _checked("_unique2", input, None, sorted=sorted, **flags)
    found = _elements(array, input._array.shape, **flags)
    return _answer("_unique2", "Unique2Backward0", input, _filled(found))


def unique_dim(
    input: Tensor,
    dim: int,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """The slices along `dim` once each, where each went, and how often it came."""
    values, inverse, counts = unique(input, sorted, True, True, dim)
    return (values, inverse if return_inverse else _none(), counts if return_counts else _none())


def _none() -> Tensor:
    return wrap(numpy.zeros(0, numpy.int64))


def _filled(found: tuple[Array | None, ...]) -> tuple[Array, ...]:
    return tuple(numpy.zeros(0, numpy.int64) if one is None else one for one in found)
