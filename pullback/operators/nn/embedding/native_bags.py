"""Bags as the top level has them: the table first, a number for the mode, and four results.

`nn.functional.embedding_bag`, in bags.py, gives the first of the four and takes names.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.addresses import as_counts
from pullback.core.arrays import Array
from pullback.core.tensor import Tensor, wrap
from pullback.operators.nn.embedding import bags

FOUND_IN = {"torch": "embedding_bag"}

_MODES = ("sum", "mean", "max")
_HALVES_AND_F32 = "efV"  # what torch adds up without a look at which bag a number is in


def embedding_bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Sums (mode 0), means (1) or maxima (2) of bags of rows, and how they came about.

    The other three results are the bag of each index, the size of each bag, and which row was the
    largest; for sums they are zeros, or nothing, as in torch.

    >>> import pullback as torch
    >>> table, numbers = torch.tensor([[1.0], [3.0]]), torch.tensor([0, 1, 1])
    >>> torch.embedding_bag(table, numbers, torch.tensor([0, 2]), mode=2)
    (tensor([[3.],
            [3.]]), tensor([0, 0, 1]), tensor([2, 1]), tensor([[1],
            [1]]))
    """
    if isinstance(mode, bool) or not isinstance(mode, int):
        raise TypeError(
            f"embedding_bag: here mode is a number (0 sum, 1 mean, 2 max), got {mode!r}; "
            "nn.functional.embedding_bag takes the name."
        )
    if not 0 <= mode < len(_MODES):
        raise RuntimeError(f"embedding_bag: mode must be 0, 1 or 2, got {mode}.")
    if not isinstance(offsets, Tensor):
        raise TypeError(f"embedding_bag: offsets must be a tensor, got {type(offsets).__name__}.")
    if indices.ndim == 2:
        indices = indices.reshape(-1)
    out = bags.embedding_bag(
        indices,
        weight,
        offsets,
        scale_grad_by_freq=scale_grad_by_freq,
        mode=_MODES[mode],
        sparse=sparse,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
    used, where, count = bags.gathered(indices, offsets, include_last_offset=include_last_offset)
    table, numbers, starts = weight._array, used._array, offsets._array
    dtype = numpy.result_type(numbers, starts)
    kept = numpy.ones(len(numbers), bool)
    if padding_idx is not None:
        kept = numbers != padding_idx % len(table)
    if mode == 0:
        tracked = weight.requires_grad or getattr(per_sample_weights, "requires_grad", False)
        sizes = numpy.zeros(count if tracked else len(starts), dtype)
        if padding_idx is None and table.dtype.char in _HALVES_AND_F32 and _rows_whole(table):
            where = where[:0]
        return out, _tensor(where, dtype), wrap(sizes), wrap(sizes.copy())
    sizes = numpy.bincount(as_counts(where[kept]), minlength=count).astype(dtype)
    if mode == 1:
        return out, _tensor(where, dtype), wrap(sizes), wrap(sizes.copy())
    largest = _largest(table, numbers[kept], where[kept], count).astype(dtype)
    return out, _tensor(where, dtype), wrap(sizes), wrap(largest)


def _tensor(array: Array, dtype: Any) -> Tensor:
    return wrap(array.astype(dtype))


def _rows_whole(table: Array) -> bool:
    whole: bool = table.shape[1] < 2 or table.strides[1] == table.itemsize
    return whole


def _largest(table: Array, numbers: Array, where: Array, count: int) -> Array:
    """For each bag and column the row that has the largest value, the first of equal ones."""
    found = numpy.zeros((count, table.shape[1]), numpy.int64)
    ends = numpy.searchsorted(where, numpy.arange(count), side="right")
    start = 0
    for bag, end in enumerate(ends):
        if end > start:
            inside = numbers[start:end]
            found[bag] = inside[table[inside].argmax(0)]
        start = end
    return found
