"""Reductions of sparse tensors: sums, norms, softmax over the specified elements."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.dtype import as_dtype
from pullback.core.explain import layout_errors as errors
from pullback.core.layout import sparse_coo
from pullback.core.tensor import wrap
from pullback.operators.indexing.rows import index_select
from pullback.operators.nn.activation.softmax import log_softmax as dense_log_softmax
from pullback.operators.nn.activation.softmax import softmax as dense_softmax
from pullback.operators.options import as_dim, as_dims
from pullback.operators.pointwise.exponentials import exp, log
from pullback.operators.reduce.norms import vector_norm
from pullback.operators.reduce.sums import sum as dense_sum
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshaping import reshape
from pullback.operators.sparse import convert
from pullback.operators.sparse.array import pattern_of
from pullback.operators.sparse.pattern import coordinates, flat_places, numbered_like
from pullback.operators.sparse.primitives import _total, from_values, rows_of, values_of

FOUND_IN = {"sparse": "log_softmax=sparse_log_softmax softmax=sparse_softmax sum=sparse_sum"}


def total(input: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """`sum()`: without `dim` a number, whose gradient is dense; else sparse as `sparse.sum`."""
    if dtype is not None:
        input = input.to(as_dtype(dtype))
    elif input._array.dtype.kind in "biu":
        input = input.long()
    if dim is None or dim in ((), []):
        made = _total(input, pattern_of(input))
        return reshape(made, (1,) * input.ndim) if keepdim else made
    if input._layout is sparse_coo:
        return summed(input, dim, keepdim=keepdim)
    if not keepdim:
        raise errors.not_taken("sum with dim, but without keepdim=True,", input._layout)
    coordinates_sum = summed(convert.to_sparse(input), dim, keepdim=True)
    block = pattern_of(input).block
    if block:
        raise errors.not_taken("sum with dim", input._layout)
    made = convert.to_sparse(coordinates_sum, layout=input._layout)
    return from_values(values_of(made), numbered_like(pattern_of(made), pattern_of(input)))


def sparse_sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """The sum over sparse and dense dimensions; the gradient stays at the specified elements.

    Dense where no sparse dimension is left.

    Example:
        >>> import pullback as torch
        >>> x = torch.tensor([[1.0, 0.0], [2.0, 3.0]]).to_sparse()
        >>> torch.sparse.sum(x), torch.sparse.sum(x, 0).to_dense()
        (tensor(6.), tensor([3., 3.]))
    """
    if input._layout is not sparse_coo:
        raise errors.wants("sparse.sum", "torch.sparse_coo", input.layout)
    if dtype is not None:
        input = input.to(as_dtype(dtype))
    elif input._array.dtype.kind in "biu":
        input = input.long()
    if dim is None:
        return dense_sum(values_of(input))
    return shown_as("SparseSumBackward0", summed(input, dim))


def summed(input: Any, dim: Any, *, keepdim: bool = False) -> Any:
    """Sums of a tensor of coordinates over some dimensions."""
    pattern = pattern_of(input)
    dims: Any = as_dims(dim, input.ndim, "sum")
    count = len(pattern.sparse_shape)
    rows = rows_of(input)
    dense = tuple(d - count + 1 for d in dims if d >= count)
    if dense:
        rows = dense_sum(rows, dense, keepdim=keepdim)
    kept = [d for d in range(count) if d not in dims]
    if not kept and not keepdim:
        return dense_sum(rows, (0,))
    indices = pattern.indices[kept]
    if keepdim:
        indices = numpy.where(numpy.isin(numpy.arange(count), dims)[:, None], 0, pattern.indices)
    shape = tuple(
        1 if d in dims else size for d, size in enumerate(pattern.shape) if keepdim or d not in dims
    )
    made = from_values(rows, coordinates(indices, shape, rows.ndim - 1))
    return convert.coalesce(made)


def norm(
    input: Any,
    ord: Any = 2,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    """The norm of all elements; zeros add nothing to it."""
    if keepdim:
        raise RuntimeError("norm: of a sparse tensor it is a number; leave keepdim out.")
    if dim is not None or out is not None or not ord > 0:
        raise errors.not_taken(
            "norm with dim or out, or of an order that counts zeros,", input._layout
        )
    x = convert.coalesce(input) if input._layout is sparse_coo else input
    values = values_of(x)
    return vector_norm(values if dtype is None else values.to(as_dtype(dtype)), ord)


# Softmax -----------------------------------------------------------------------------------------


def sparse_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Softmax over the specified elements along `dim`; the others count as minus infinity.

    Example:
        >>> import pullback as torch
        >>> x = torch.tensor([[1.0, 1.0, 0.0]]).to_sparse()
        >>> torch.sparse.softmax(x, 1).to_dense()
        tensor([[0.5000, 0.5000, 0.0000]])
    """
    return _softmax("softmax", input, dim, dtype)


def sparse_log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """The logarithm of `sparse.softmax`, at the specified elements.

    >>> import pullback as torch
    >>> torch.sparse.log_softmax(torch.eye(2).to_sparse(), dim=1).to_dense()
    tensor([[0., 0.],
            [0., 0.]])
    """
    return _softmax("log_softmax", input, dim, dtype)


def _softmax(name: str, input: Any, dim: int, dtype: Any) -> Any:
    if input._layout is not sparse_coo:
        raise errors.wants(f"sparse.{name}", "torch.sparse_coo", input.layout)
    if dtype is not None:
        input = input.to(as_dtype(dtype))
    x = convert.coalesce(input)
    pattern = pattern_of(x)
    along = as_dim(dim, x.ndim, name)
    count = len(pattern.sparse_shape)
    rows = rows_of(x)
    if along >= count:
        function = dense_softmax if name == "softmax" else dense_log_softmax
        made = function(rows, along - count + 1)
    else:
        made = _over_groups(name, rows, _groups(pattern, along))
    node = "SparseSoftmaxBackward0" if name == "softmax" else "SparseLogSoftmaxBackward0"
    return shown_as(node, from_values(made, pattern))


def _groups(pattern: Any, along: int) -> Any:
    """Numbers of the groups that are normalised together."""
    kept = [d for d in range(len(pattern.sparse_shape)) if d != along]
    shape = tuple(pattern.sparse_shape[d] for d in kept)
    keys = flat_places(pattern.indices[kept], shape)
    return numpy.unique(keys, return_inverse=True)[1].reshape(-1)


def _over_groups(name: str, rows: Any, groups: Any) -> Any:
    if not len(groups):
        return rows * 1
    count = int(groups.max()) + 1
    largest = numpy.full((count, *rows.shape[1:]), -numpy.inf, rows._array.dtype)
    numpy.maximum.at(largest, groups, rows._array)
    shifted = rows - wrap(largest[groups])
    powers = exp(shifted)
    sums = index_select(convert.summed_rows(powers, groups, count), 0, wrap(groups))
    return powers / sums if name == "softmax" else shifted - log(sums)
