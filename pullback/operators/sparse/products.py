"""Products with sparse matrices: with dense ones and with sparse ones, whole or masked gradients.

`mm` and its relatives give a sparse factor the gradient that a dense one would get; those of
`torch.sparse` keep it at the specified places.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.explain import layout_errors as errors
from pullback.core.layout import sparse_coo, sparse_csr
from pullback.core.tensor import Tensor, wrap
from pullback.operators.declare import METHODS
from pullback.operators.indexing.rows import index_select
from pullback.operators.indexing.scatter_reduce import scatter_reduce
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshaping import reshape
from pullback.operators.shape.views import expand_view, transpose
from pullback.operators.sparse import convert, kernels
from pullback.operators.sparse.array import pattern_of
from pullback.operators.sparse.layouts import pattern_in
from pullback.operators.sparse.pattern import coordinates
from pullback.operators.sparse.primitives import (
    _dots,
    _product,
    _product_whole,
    _sparse_product,
    _times_whole,
    from_values,
    rows_by,
    rows_of,
    times,
)

FOUND_IN = {
    "torch": "dsmm hsmm hspmm saddmm smm spmm sspaddmm",
    "sparse": "addmm=sparse_addmm mm=sparse_mm sampled_addmm spsolve",
}


def _check(op: str, a: Any, b: Any) -> None:
    for one in (a, b):
        if one.ndim != 2 or (one._layout is not None and one._array._pattern.dense_dim):
            raise RuntimeError(
                f"{op}: needs matrices without dense dimensions, got shapes {tuple(a.shape)} and "
                f"{tuple(b.shape)}."
            )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{op}: shapes {tuple(a.shape)} and {tuple(b.shape)} do not go together; "
            f"{a.shape[1]} columns meet {b.shape[0]} rows."
        )
    if a._array.dtype != b._array.dtype:
        raise RuntimeError(f"{op}: factors have dtypes {a.dtype} and {b.dtype}; convert one.")


def _check_sum(op: str, input: Any, factor: Any) -> None:
    if input._array.dtype != factor._array.dtype:
        raise RuntimeError(
            f"{op}: input has dtype {input.dtype}, the product {factor.dtype}; convert one."
        )


def mm(input: Any, mat2: Any) -> Any:
    """A product of matrices; dense unless both are sparse."""
    _check("mm", input, mat2)
    if input._layout is not None and mat2._layout is not None:
        return sparse_times_sparse(input, mat2)
    if input._layout is not None:
        return _product_whole(input, mat2)
    return _times_whole(input, mat2)


def sparse_times_sparse(a: Any, b: Any) -> Any:
    """The sparse product of two sparse matrices: of coordinates, or of compressed rows."""
    for one in (a, b):
        if pattern_of(one).block:
            raise errors.not_taken("sparse.mm of two sparse matrices", one._layout)
    if a._layout is sparse_coo:
        a, b = convert.coalesce(a), b if b._layout is not sparse_coo else convert.coalesce(b)
    left, right = pattern_of(a), pattern_of(b)
    shape = (left.shape[0], right.shape[1])
    x, y = rows_of(a), rows_of(b)
    places, product = kernels.product_places(x._array, y._array, left, right)
    made = pattern_in(sparse_coo if left.layout is sparse_coo else sparse_csr, places, shape, 0)
    known = None if product is None else (x._array, y._array, product)
    rows = _sparse_product(x, y, left, right, made, known)
    return shown_as("SparseSparseMatmulBackward0", from_values(rows, made))


def mv(input: Any, vec: Any) -> Any:
    """A sparse matrix times a dense vector."""
    if vec._layout is not None or vec.ndim != 1:
        raise RuntimeError(f"mv: the vector must be a dense 1-d tensor, got {tuple(vec.shape)}.")
    product = mm(input, reshape(vec, (-1, 1)))
    return shown_as("MvBackward0", reshape(product, (-1,)))


def matmul(input: Any, other: Any) -> Any:
    """A vector, or dense matrices of a batch, times a sparse matrix."""
    if input._layout is not None or other.ndim != 2 or not input.ndim:
        raise errors.not_taken("matmul", input._layout or other._layout, " in this place")
    count = math.prod(input.shape[:-1])
    made = mm(reshape(input, (count, input.shape[-1])), other)
    return reshape(made, (*input.shape[:-1], other.shape[1]))


def addmm(input: Any, mat1: Any, mat2: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * mat1 @ mat2`."""
    _check_sum("addmm", input, mat1)
    product = mm(mat1, mat2) * alpha
    if input._layout is None and product._layout is not None:
        product = product.to_dense()
    return shown_as("AddmmBackward0", times(input, beta) + product)


def addmv(input: Any, mat: Any, vec: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * mat @ vec`."""
    _check_sum("addmv", input, mat)
    return shown_as("AddmvBackward0", times(input, beta) + mv(mat, vec) * alpha)


def bmm(input: Any, mat2: Any) -> Any:
    """Sparse matrices of a batch times dense ones: one matrix with blocks along its diagonal."""
    if input._layout is None or mat2._layout is not None or input.ndim != 3 or mat2.ndim != 3:
        raise errors.not_taken("bmm", input._layout or mat2._layout, " in this place")
    batch, rows, inner = input.shape
    if tuple(mat2.shape[:2]) != (batch, inner):
        raise RuntimeError(
            f"bmm: shapes {tuple(input.shape)} and {tuple(mat2.shape)} do not go together."
        )
    number, row, column = pattern_of(input).indices
    places = numpy.stack([number * rows + row, number * inner + column])
    diagonal = coordinates(places, (batch * rows, batch * inner), 0)
    made = _product(rows_of(input), reshape(mat2, (batch * inner, mat2.shape[2])), diagonal)
    return shown_as("BmmBackward0", reshape(made, (batch, rows, mat2.shape[2])))


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """`input @ weight.T + bias` with a sparse weight or input."""
    made = input @ weight.t()
    return made if bias is None else made + bias


# Those of torch.sparse: gradients stay at the specified places ------------------------------------


def sparse_mm(mat1: Any, mat2: Any, reduce: str | None = None) -> Any:
    """A product whose sparse factor gets its gradient at its places alone.

    With `reduce` ("sum", "mean", "amax", "amin") the terms of each element of a CSR matrix's
    product are reduced that way.

    Example:
        >>> import pullback as torch
        >>> a = torch.eye(2).to_sparse().requires_grad_()
        >>> torch.sparse.mm(a, torch.ones(2, 3)).sum().backward()
        >>> a.grad
        tensor(indices=tensor([[0, 1],
                               [0, 1]]),
               values=tensor([3., 3.]),
               size=(2, 2), nnz=2, layout=torch.sparse_coo)
    """
    _check("sparse.mm", mat1, mat2)
    if reduce is not None:
        return _reduced(mat1, mat2, reduce)
    if mat1._layout is None and mat2._layout is None:
        raise RuntimeError("sparse.mm: one of the matrices must be sparse.")
    if mat1._layout is not None and mat2._layout is not None:
        return sparse_times_sparse(mat1, mat2)
    if mat1._layout is not None:
        pattern = pattern_of(mat1)
        return _product(rows_by(mat1, pattern), mat2, pattern)
    pattern = pattern_of(mat2)
    flipped = pattern.matrix.transposed
    return transpose(_product(rows_by(mat2, pattern), transpose(mat1, 0, 1), flipped), 0, 1)


def _reduced(mat1: Any, mat2: Any, reduce: str) -> Any:
    names = {"max": "amax", "min": "amin"}
    reduce = names.get(reduce, reduce)
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise RuntimeError(f"sparse.mm: reduce={reduce!r} is none of sum, mean, amax and amin.")
    if mat1._layout is None or mat1._layout is sparse_coo or mat2._layout is not None:
        raise errors.not_taken("sparse.mm with reduce", mat1._layout or mat2._layout)
    row, column = pattern_of(mat1).indices
    terms = rows_of(mat1)[:, None] * index_select(mat2, 0, wrap(column))
    zeros = wrap(numpy.zeros((mat1.shape[0], mat2.shape[1]), mat1._array.dtype))
    places = expand_view(wrap(row[:, None]), tuple(terms.shape))
    made = scatter_reduce(zeros, 0, places, terms, reduce, include_self=reduce == "sum")
    return shown_as("SparseMmReduceImplBackward0", made)


def sparse_addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0) -> Any:
    """`beta * mat + alpha * mat1 @ mat2`, the gradient of `mat1` at its places alone.

    >>> import pullback as torch
    >>> torch.sparse.addmm(
    ...     torch.zeros(2, 1), torch.eye(2).to_sparse(), torch.tensor([[1.0], [2.0]])
    ... )
    tensor([[1.],
            [2.]])
    """
    product = sparse_mm(mat1, mat2)
    if mat._layout is None and product._layout is not None:
        product = product.to_dense()
    scaled = product if alpha == 1 else product * alpha
    return shown_as("SparseAddmmBackward0", times(mat, beta) + scaled)


def sampled_addmm(
    input: Any, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0, out: Any = None
) -> Any:
    """`beta * input + alpha * mat1 @ mat2` at the places of a sparse `input` alone.

    Example:
        >>> import pullback as torch
        >>> pattern = torch.eye(2).to_sparse_csr()
        >>> torch.sparse.sampled_addmm(pattern, torch.ones(2, 3), torch.ones(3, 2)).values()
        tensor([4., 4.])
    """
    if input._layout is None or mat1._layout is not None or mat2._layout is not None:
        raise RuntimeError("sparse.sampled_addmm: needs a sparse input and two dense matrices.")
    _check("sparse.sampled_addmm", mat1, mat2)
    if input._layout is sparse_coo:
        input = convert.coalesce(input)
    pattern = pattern_of(input)
    if pattern.shape != (mat1.shape[0], mat2.shape[1]):
        raise RuntimeError(
            f"sparse.sampled_addmm: input has shape {pattern.shape}, the product "
            f"{(mat1.shape[0], mat2.shape[1])}."
        )
    dots = _dots(mat1, transpose(mat2, 0, 1), pattern)
    made = from_values(rows_of(input) * beta + dots * alpha, pattern)
    shown_as("SparseSampledAddmmBackward0", made)
    if out is None:
        return made
    with_out: Tensor = out.copy_(made)
    return with_out


def hspmm(mat1: Any, mat2: Any) -> Any:
    """A sparse matrix times a dense one, as a hybrid tensor: the rows that are not empty.

    >>> import pullback as torch
    >>> torch.hspmm(torch.eye(2).to_sparse(), torch.tensor([[1.0], [2.0]])).to_dense()
    tensor([[1.],
            [2.]])
    """
    _check("hspmm", mat1, mat2)
    if mat1._layout is None:
        raise RuntimeError("hspmm: mat1 must be a sparse one; use mm for two dense ones.")
    if mat1._layout is not sparse_coo:
        raise errors.not_taken("hspmm", mat1._layout)
    pattern = pattern_of(mat1)
    rows = numpy.unique(pattern.indices[0])
    made = index_select(_product(rows_of(mat1), mat2, pattern), 0, wrap(rows))
    shape = (pattern.shape[0], mat2.shape[1])
    return from_values(made, coordinates(rows[None], shape, 1, coalesced=True))


def smm(input: Any, mat2: Any) -> Any:
    """A sparse matrix times a dense one, as a sparse matrix: the rows that are not empty.

    >>> import pullback as torch
    >>> torch.smm(torch.eye(2).to_sparse(), torch.tensor([[1.0], [2.0]])).to_dense()
    tensor([[1.],
            [2.]])
    """
    hybrid = hspmm(input, mat2)
    rows, width = pattern_of(hybrid).indices[0], mat2.shape[1]
    places = numpy.stack([rows.repeat(width), numpy.tile(numpy.arange(width), len(rows))])
    pattern = coordinates(places, tuple(hybrid.shape), 0, coalesced=True)
    return from_values(reshape(rows_of(hybrid), (-1,)), pattern)


def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """`beta * input + alpha * mat1 @ mat2` of sparse `input` and `mat1`, as a sparse matrix.

    >>> import pullback as torch
    >>> eye = torch.eye(2).to_sparse()
    >>> torch.sspaddmm(eye, eye, torch.ones(2, 2)).to_dense()
    tensor([[2., 1.],
            [1., 2.]])
    """
    return input * beta + smm(mat1, mat2) * alpha


def saddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """As `sspaddmm`."""
    return sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha)


def spmm(mat1: Any, mat2: Any) -> Any:
    """As `mm`, which takes sparse and dense matrices."""
    return Tensor.mm(mat1, mat2)


def dsmm(mat1: Any, mat2: Any) -> Any:
    """As `mm`, which takes sparse and dense matrices."""
    return Tensor.mm(mat1, mat2)


def hsmm(mat1: Any, mat2: Any) -> Any:
    """As `hspmm`."""
    return hspmm(mat1, mat2)


def spsolve(input: Any, other: Any, *, left: bool = True) -> Any:
    """The solution `x` of `input @ x = other`, for a square sparse matrix; needs SciPy.

    Example:
        >>> import pullback as torch
        >>> a = torch.tensor([[2.0, 0.0], [1.0, 4.0]], dtype=torch.float64).to_sparse_csr()
        >>> torch.sparse.spsolve(a, torch.tensor([2.0, 9.0], dtype=torch.float64))
        tensor([1., 2.], dtype=torch.float64)
    """
    if not left:
        raise NotImplementedError("sparse.spsolve: only left=True; transpose the matrix instead.")
    if input._layout is None or input.ndim != 2 or input.shape[0] != input.shape[1]:
        raise RuntimeError("sparse.spsolve: needs a square sparse matrix.")
    if other._layout is not None or other.ndim not in (1, 2) or len(other) != len(input):
        raise RuntimeError(
            "sparse.spsolve: the right side must be dense and as long as the matrix."
        )
    from pullback.operators.sparse.solving import _solved

    columns = reshape(other, (-1, 1)) if other.ndim == 1 else other
    made = _solved(rows_of(input), columns, pattern_of(input).matrix)
    return reshape(made, (-1,)) if other.ndim == 1 else made


METHODS["smm"], METHODS["sspaddmm"] = smm, sspaddmm
