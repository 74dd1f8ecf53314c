"""Rows of a table, gathered in bags: `embedding` and a sum, mean or maximum of each bag."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.tensor import wrap
from pullback.operators.embedding import embedding
from pullback.operators.rows import index_add
from pullback.operators.scatter_kernels import check_index_dtype
from pullback.operators.scatter_reduce import scatter_reduce
from pullback.operators.shape import reshape
from pullback.operators.views import _expand

__all__ = ["embedding_bag"]


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Sum, average or maximise the rows of `weight` that each bag of numbers names.

    Bags are the rows of a 2-d `input`, or start where `offsets` say in a 1-d one. A bag of nothing
    gives zeros; `padding_idx` counts as nothing.
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', got {mode!r}.")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights go with mode='sum' only, got mode={mode!r}."
        )
    numbers, bags, count = _bags(input, offsets, include_last_offset=include_last_offset)
    if padding_idx is not None:
        kept = numbers != padding_idx % weight.shape[0]
        numbers, bags = numbers[kept], bags[kept]
    rows = embedding(wrap(numbers), weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
    if per_sample_weights is not None:
        factors = reshape(per_sample_weights, (-1, 1))
        rows = rows * (factors if padding_idx is None else factors[wrap(numpy.flatnonzero(kept))])
    empty = wrap(numpy.zeros((count, weight.shape[1]), weight._array.dtype))
    if mode == "max":
        places = _expand(wrap(bags[:, None]), tuple(rows.shape))
        return scatter_reduce(empty, 0, places, rows, "amax", include_self=False)
    total: Any = index_add(empty, 0, wrap(bags), rows)
    if mode == "sum":
        return total
    sizes = numpy.maximum(numpy.bincount(bags, minlength=count), 1)[:, None]
    return total / wrap(sizes.astype(weight._array.dtype))


def _bags(input: Any, offsets: Any, *, include_last_offset: bool) -> tuple[Any, Any, int]:
    """The numbers as a flat array, the bag of each, and how many bags there are."""
    array = input._array
    check_index_dtype("embedding_bag", array)
    if array.ndim == 2:
        if offsets is not None:
            raise ValueError("embedding_bag: a 2-d input has its rows as bags, and no offsets.")
        return array.reshape(-1), numpy.arange(len(array)).repeat(array.shape[1]), len(array)
    if array.ndim != 1:
        raise ValueError(f"embedding_bag: input must be 1-d or 2-d, got shape {array.shape}.")
    if offsets is None or offsets.ndim != 1:
        raise ValueError("embedding_bag: a 1-d input needs offsets, a 1-d tensor of bags' starts.")
    starts = offsets._array
    check_index_dtype("embedding_bag", starts)
    if len(starts) and (starts[0] != 0 or starts[-1] > len(array)):
        raise RuntimeError(
            f"embedding_bag: offsets must begin with 0 and end within the input's {len(array)} "
            f"elements, got {starts[0]} and {starts[-1]}."
        )
    ends = starts[1:] if include_last_offset else numpy.append(starts[1:], len(array))
    starts = starts[: len(ends)]
    return array, numpy.arange(len(starts)).repeat(ends - starts), len(starts)
