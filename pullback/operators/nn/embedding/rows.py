"""Rows of a table by number, and numbers as rows of zeros and a one."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.addresses import as_counts
from pullback.core.arrays import is_wrong, namespace
from pullback.core.device import META
from pullback.core.mode import get_mode
from pullback.core.tensor import wrap
from pullback.core.version import bump
from pullback.operators.arrays.scatter import add_at, check_bounds, check_index_dtype
from pullback.operators.create.ranges import arange
from pullback.operators.declare import Array, Namespace, primitive
from pullback.operators.nn.loss import batch as batch_layers

FOUND_IN = {
    "torch": "embedding=embedding_rows embedding_renorm_",
    "nn.functional": "embedding one_hot",
}


@primitive(
    batch=batch_layers.table_rows,
    weight=lambda g, indices, weight_shape, padding_idx, scale_grad_by_freq, sparse: (
        _sparse_gradient(g, indices, weight_shape, padding_idx, scale_grad_by_freq)
        if sparse
        else _embedding_adjoint(g, indices, weight_shape, padding_idx, scale_grad_by_freq)
    ),
    jvp=lambda d_weight, indices: embedding_rows(d_weight, indices),
    name="embedding",
    method=False,
    has_out=False,
)
def embedding_rows(
    xp: Namespace,
    weight: Array,
    indices: Array,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Array:
    """The rows of `weight` that `indices` name; the row `padding_idx` gets no gradient.

    With `sparse=True` the gradient is a sparse tensor of one row for each that was read.

    >>> import pullback as torch
    >>> torch.embedding(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 0]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: weight must be a matrix, got shape {weight.shape}.")
    check_index_dtype("embedding", indices)
    check_bounds("embedding", indices, len(weight), 0, IndexError)
    return weight.take(indices, 0)  # in a third of the time of a subscript


def _sparse_gradient(
    g: Any, indices: Any, weight_shape: Any, padding_idx: int, scale_grad_by_freq: bool
) -> Any:
    if scale_grad_by_freq:
        raise RuntimeError(
            "embedding: scale_grad_by_freq=True divides by counts, which sparse gradients do not "
            "have; use sparse=False."
        )
    from pullback.operators.sparse.gradients import row_gradient  # which few need

    return row_gradient(g, indices, weight_shape, padding_idx)


@primitive(
    batch=batch_layers.table_rows_adjoint,
    gradient=lambda g, indices, padding_idx, scale_grad_by_freq: _second(
        g, indices, padding_idx, scale_grad_by_freq
    ),
    jvp=lambda d_gradient, indices, shape, padding_idx, scale_grad_by_freq: _embedding_adjoint(
        d_gradient, indices, shape, padding_idx, scale_grad_by_freq
    ),
    node="EmbeddingDenseBackwardBackward0",
    has_out=False,
)
def _embedding_adjoint(
    xp: Namespace,
    gradient: Array,
    indices: Array,
    shape: Any,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Array:
    """Zeros, with each row of the gradient added where it came from."""
    out = xp.zeros(shape, gradient.dtype)
    rows, index = gradient.reshape(indices.size, shape[1]), indices.reshape(-1)
    if scale_grad_by_freq:
        rows = rows / xp.bincount(as_counts(index))[index].astype(rows.dtype)[:, None]
    add_at(xp, out, (index,), (0,), rows)
    if padding_idx >= 0:
        out[padding_idx] = 0
    return out


@primitive(
    batch=batch_layers.table_rows,
    weight=lambda g, indices, weight_shape, padding_idx, scale_grad_by_freq: _embedding_adjoint(
        g, indices, weight_shape, padding_idx, scale_grad_by_freq
    ),
    jvp=lambda d_weight, indices, padding_idx, scale_grad_by_freq: _second(
        d_weight, indices, padding_idx, scale_grad_by_freq
    ),
    node="EmbeddingBackward0",
    has_out=False,
)
def _second(
    xp: Namespace, weight: Array, indices: Array, padding_idx: int, scale_grad_by_freq: bool
) -> Array:
    """The adjoint of `_embedding_adjoint`: rows again, none of the padding, scaled as it scales."""
    out = weight[indices]
    if scale_grad_by_freq:
        counts = xp.bincount(as_counts(indices.reshape(-1)))[indices]
        out /= counts.astype(out.dtype)[..., None]
    if padding_idx >= 0:
        out[indices == padding_idx] = 0
    return out


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of `weight` that `input` names.

    With `max_norm`, rows that are longer are first shortened to it, in place.

    >>> import pullback as torch
    >>> torch.nn.functional.embedding(torch.tensor([2, 0]), torch.eye(3))
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if padding_idx is not None:
        size = weight.shape[0]
        if not -size <= padding_idx < size:
            raise AssertionError(
                f"embedding: padding_idx {padding_idx} is not the number of one of {size} rows."
            )
        padding_idx %= size
    if max_norm is not None:
        _shorten(weight, input, max_norm, norm_type)
    return embedding_rows(
        weight, input, -1 if padding_idx is None else padding_idx, scale_grad_by_freq, sparse
    )


def embedding_renorm_(input: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Shorten the rows of a table that `indices` name to `max_norm`, where they are longer.

    >>> import pullback as torch
    >>> torch.embedding_renorm_(torch.tensor([[3.0, 4.0]]), torch.tensor([0]), 1.0, 2.0)
    tensor([[0.6000, 0.8000]])
    """
    _shorten(input, indices, max_norm, norm_type)
    return input


def _shorten(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    """Scale the rows in use down to `max_norm`, unseen by autograd."""
    table = weight._array
    if table.ndim != 2 or table.dtype.kind not in "fV":
        raise RuntimeError(
            "embedding: rows are shortened of a floating-point matrix, not of "
            f"{tuple(table.shape)} {weight.dtype}."
        )
    check_index_dtype("embedding", indices._array)
    for name, number in (("max_norm", max_norm), ("norm_type", norm_type)):
        if not isinstance(number, int | float):
            raise TypeError(f"embedding: {name} is a number, got {type(number).__name__}.")
    check_bounds("embedding", indices._array, len(table), 0, IndexError)
    rows = numpy.unique(indices._array)
    used = table[rows]
    norms = numpy.linalg.norm(used, norm_type, axis=1)
    long = norms > max_norm
    table[rows[long]] = used[long] * (max_norm / (norms[long, None] + 1e-7)).astype(table.dtype)
    bump(weight, "embedding_renorm_")


def one_hot(input: Any, num_classes: int = -1) -> Any:
    """One-hot encode integer classes, in a new last dimension.

    >>> import pullback as torch
    >>> torch.nn.functional.one_hot(torch.tensor([0, 2]), num_classes=3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    array = input._array
    if array.dtype != numpy.int64:
        raise RuntimeError(f"one_hot: needs an int64 tensor, got {input.dtype}; use .long().")
    if get_mode().levels and num_classes > 0:  # examples of vmap have no values to look at
        return (input[..., None] == arange(num_classes)).long()
    if num_classes > 0 and input.device is META:
        return input.new_empty((*input.shape, num_classes))
    if not array.size and num_classes <= 0:
        raise RuntimeError("one_hot: num_classes must be given for an empty tensor.")
    if is_wrong(array < 0):
        raise RuntimeError(f"one_hot: class values must not be negative, got {array.min()}.")
    classes = int(array.max()) + 1 if num_classes == -1 else num_classes
    if classes < 1:
        raise RuntimeError(f"one_hot: num_classes must be positive, got {num_classes}.")
    if is_wrong(array >= classes):
        raise RuntimeError(
            f"one_hot: class values must be smaller than num_classes, {classes}; got {array.max()}."
        )
    xp = namespace(array)
    made = xp.zeros((array.size, classes), numpy.int64)
    made[xp.arange(array.size), array.reshape(-1)] = 1
    return wrap(made.reshape(*array.shape, classes))
