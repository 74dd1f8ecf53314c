"""Rows of a table, gathered in bags: `embedding` and a sum, mean or maximum of each bag."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.addresses import as_counts
from pullback.core.arrays import I64, LIBRARIES, Array, namespace
from pullback.core.device import META
from pullback.core.origin import stacklevel
from pullback.core.tensor import wrap
from pullback.operators.arrays.scatter import check_index_dtype
from pullback.operators.create.constants import constant_like
from pullback.operators.indexing.rows import index_add, index_select
from pullback.operators.indexing.scatter_reduce import scatter_reduce
from pullback.operators.indexing.selection import masked_fill
from pullback.operators.nn.embedding.rows import embedding
from pullback.operators.pointwise.extrema import clamp_min
from pullback.operators.running.by_example import each_example, level_reading
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshaping import reshape
from pullback.operators.shape.views import expand_view
from pullback.operators.tensor.convert import astype, widened

FOUND_IN = {"nn.functional": "embedding_bag"}


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

    >>> import pullback as torch
    >>> torch.nn.functional.embedding_bag(
    ...     torch.tensor([[0, 1]]), torch.tensor([[1.0], [3.0]]), mode="mean"
    ... )
    tensor([[2.]])
    """
    if input.dtype.is_floating_point and not weight.dtype.is_floating_point:
        warnings.warn(
            "embedding_bag: the numbers come first, then the table; the old order still works.",
            UserWarning,
            stacklevel=stacklevel(),
        )
        input, weight = weight, input
    if (level := level_reading(offsets)) is not None:
        options = (max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights)
        last = (include_last_offset, padding_idx)
        return each_example(level, embedding_bag, input, weight, offsets, *options, *last)
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', got {mode!r}.")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            f"embedding_bag: per_sample_weights go with mode='sum' only, got mode={mode!r}."
        )
    if scale_grad_by_freq and mode == "max":
        raise ValueError("embedding_bag: mode='max' has no scale_grad_by_freq; pass False.")
    if sparse and mode == "max":
        raise ValueError("embedding_bag: mode='max' has no sparse gradient; use sparse=False.")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(
            f"embedding_bag: padding_idx {padding_idx} is not the number of one of {rows} rows."
        )
    if weight.device is META:
        return shown_as(_NODE, _of_this_shape(input, weight, offsets, last=include_last_offset))
    numbers, bags, count = gathered(input, offsets, include_last_offset=include_last_offset)
    try:
        rows = embedding(numbers, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
    except IndexError as error:  # torch's type here is another than that of `embedding`
        raise errors.as_called(RuntimeError(str(error)), "embedding_bag", "embedding") from None
    rows = widened(rows)  # sums of half precision are rounded once
    if per_sample_weights is not None:
        if tuple(per_sample_weights.shape) != tuple(input.shape):
            raise ValueError(
                f"embedding_bag: per_sample_weights has shape {tuple(per_sample_weights.shape)}, "
                f"but there is one for each number of input, of shape {tuple(input.shape)}."
            )
        cut = len(bags) < input.numel()
        each = per_sample_weights[: len(bags)] if cut else per_sample_weights
        rows = rows * reshape(each, (-1, 1))
    dtype = rows._array.dtype
    kept = None
    if padding_idx is not None:
        kept = numbers != padding_idx % weight.shape[0]
        rows = masked_fill(rows, ~kept[:, None], -math.inf if mode == "max" else 0.0)
    empty = wrap(namespace(weight._array).zeros((count, weight.shape[1]), dtype))
    if mode == "max":
        places = expand_view(wrap(bags[:, None]), tuple(rows.shape))
        largest = scatter_reduce(empty, 0, places, rows, "amax", include_self=False)
        if kept is not None:
            largest = masked_fill(largest, _sizes(bags, count, kept, dtype) == 0, 0.0)
        return shown_as(_NODE, astype(largest, weight._array.dtype))
    total: Any = index_add(empty, 0, wrap(bags), rows)
    if mode == "mean":
        total = total / clamp_min(_sizes(bags, count, kept, dtype), 1)
    return shown_as(_NODE, astype(total, weight._array.dtype))


_NODE = "EmbeddingBagBackward0"


def _of_this_shape(input: Any, weight: Any, offsets: Any, *, last: bool) -> Any:
    """A row for each bag, where values are not known."""
    count = input.shape[0] if input.ndim == 2 else offsets.shape[0] - last
    return index_select(weight, 0, constant_like(weight, numpy.zeros(count, I64)))


def _sizes(bags: Array, count: int, kept: Any, dtype: Any) -> Any:
    """How many numbers each bag has, padding not counted; a column."""
    if kept is None:
        sizes = wrap(namespace(bags).bincount(as_counts(bags), minlength=count).astype(dtype))
    else:
        none = wrap(namespace(bags).zeros(count, dtype))
        sizes = index_add(none, 0, wrap(bags), astype(kept, dtype))
    return sizes[:, None]


def gathered(input: Any, offsets: Any, *, include_last_offset: bool) -> tuple[Any, Any, int]:
    """The numbers as a flat tensor, the bag of each, and how many bags there are."""
    if offsets is not None and input._array.ndim == 1:  # of two integer dtypes, the wider
        wider = numpy.promote_types(input._array.dtype, offsets._array.dtype)
        input, offsets = astype(input, wider), astype(offsets, wider)
    array = input._array
    check_index_dtype("embedding_bag", array)
    if array.ndim == 2:
        if offsets is not None:
            raise ValueError("embedding_bag: a 2-d input has its rows as bags, and no offsets.")
        bags = namespace(array).arange(len(array)).repeat(array.shape[1])
        return reshape(input, (-1,)), bags, len(array)
    if array.ndim != 1:
        raise ValueError(f"embedding_bag: input must be 1-d or 2-d, got shape {array.shape}.")
    if offsets is None or offsets.ndim != 1:
        raise ValueError("embedding_bag: a 1-d input needs offsets, a 1-d tensor of bags' starts.")
    starts = offsets._array
    check_index_dtype("embedding_bag", starts)
    wrong = len(starts) and type(starts) not in LIBRARIES
    if wrong and (starts[0] != 0 or starts[-1] > len(array)):
        raise RuntimeError(
            f"embedding_bag: offsets must begin with 0 and end within the input's {len(array)} "
            f"elements, got {starts[0]} and {starts[-1]}."
        )
    xp = namespace(array)
    ends = starts[1:] if include_last_offset else xp.append(starts[1:], len(array))
    starts = starts[: len(ends)]
    bags = xp.repeat(xp.arange(len(starts)), as_counts(ends - starts))
    # The last offset may leave numbers out at the end.
    return input[: len(bags)] if len(bags) < len(array) else input, bags, len(starts)
