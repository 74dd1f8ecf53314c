"""Each element once: over everything or along a dimension, anywhere or in a row."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import Array
from pullback.core.device import META
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.core.view import edge_of
from pullback.operators.arithmetic import unsupported
from pullback.operators.declare import method
from pullback.operators.options import as_dim
from pullback.operators.reshape_inplace import unsupported_node

__all__ = ["unique", "unique_consecutive"]


def _check_data(op: str, input: Tensor) -> None:
    if input.device is META:
        raise errors.no_data(op)


def _answer(
    op: str, input: Tensor, values: Array, inverse: Array, counts: Array, asked: tuple[bool, bool]
) -> Any:
    """The values alone, or with what else was asked for; a gradient of the values is refused."""
    more = [array for array, wanted in zip((inverse, counts), asked, strict=True) if wanted]
    results = tuple(wrap(numpy.asarray(array)) for array in (values, *more))
    mode = get_mode()
    if mode.grad and not mode.inference and input.requires_grad:
        results[0]._node = unsupported_node(op, (edge_of(input),), results[0])
    return results if more else results[0]


def _lines(op: str, input: Tensor, dim: int | None) -> tuple[Array, int]:
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
    _check_data("unique()", input)
    array, at = _lines("unique", input, dim)
    if not array.size:
        empty = numpy.zeros(0, numpy.int64)
        inverse = empty.reshape(input._array.shape if dim is None else -1)
        return _answer("unique", input, array, inverse, empty, (return_inverse, return_counts))
    values, inverse, counts = numpy.unique(
        array,
        return_inverse=True,
        return_counts=True,
        axis=None if dim is None else at,
        equal_nan=False,
    )
    inverse = inverse.reshape(input._array.shape if dim is None else -1)
    return _answer("unique", input, values, inverse, counts, (return_inverse, return_counts))


@method
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Runs of equal elements (or slices along `dim`) as one element each."""
    _check_data("unique_consecutive()", input)
    array, at = _lines("unique_consecutive", input, dim)
    lines = numpy.moveaxis(array, at, 0)
    starts = numpy.ones(len(lines), bool)
    differ = lines[1:] != lines[:-1]
    starts[1:] = differ.reshape(len(differ), -1).any(1) if len(differ) else differ.reshape(0)
    inverse = starts.cumsum() - 1
    counts = numpy.diff(numpy.append(starts.nonzero()[0], len(lines)))
    if dim is None:
        inverse = inverse.reshape(input._array.shape)
    values = numpy.moveaxis(lines[starts], 0, at)
    return _answer(
        "unique_consecutive", input, values, inverse, counts, (return_inverse, return_counts)
    )
