"""Matrices from diagonals and diagonals from matrices; block diagonals."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core import errors
from pullback.core.tensor import Tensor, wrap
from pullback.operators.batching import shifted
from pullback.operators.declare import Array, Dim, Namespace, linear, method
from pullback.operators.options import as_dim
from pullback.operators.running.inplace import check_out_dtype, write_out
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.arrange import atleast_2d
from pullback.operators.shape.joining import cat
from pullback.operators.shape.reshaping import flatten
from pullback.operators.shape.views import _diagonal_adjoint, diagonal

FOUND_IN = {"torch": "block_diag diag diag_embed diagflat"}


@linear(
    batch=shifted(("dim1", "dim2")),
    input=lambda g, offset, dim1, dim2: diagonal(g, offset, dim1, dim2),
    node="DiagEmbedBackward0",
    has_out=False,
    aten="diag_embed.default",
)
def _diag_embed(xp: Namespace, input: Array, offset: int, dim1: int, dim2: int) -> Array:
    size = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for dim in sorted((dim1, dim2)):
        shape.insert(dim, size)
    return _diagonal_adjoint.op.forward(  # type: ignore[attr-defined]  # a declared operator
        xp, input, tuple(shape), offset, dim1, dim2
    )


@method
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the last dimension of `input` on their diagonal.

    >>> import pullback as torch
    >>> torch.diag_embed(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    first = as_dim(dim1, input.ndim + 1, "diag_embed")
    second = as_dim(dim2, input.ndim + 1, "diag_embed")
    if first == second:
        raise RuntimeError(f"diag_embed: dim1 and dim2 are both {first}; they must differ.")
    return _diag_embed(input, offset, first, second)


@linear(
    input=lambda g, input_shape, offset, dim1, dim2: _diagonal_adjoint(
        g, input_shape, offset, dim1, dim2
    ),
    node="DiagonalBackward0_copy",
    has_out=False,
)
def _diagonal_copy(xp: Namespace, input: Array, offset: int, dim1: Dim, dim2: Dim) -> Array:
    return input.diagonal(offset, dim1, dim2).copy()


@method
def diag(input: Any, diagonal: int = 0, *, out: Any = None) -> Any:
    """A vector as the diagonal of a matrix; the diagonal of a matrix as a vector.

    >>> import pullback as torch
    >>> torch.diag(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(f"diag: expects a vector or a matrix, got shape {tuple(input.shape)}.")
    made = diag_embed(input, diagonal) if input.ndim == 1 else _diagonal_copy(input, diagonal, 0, 1)
    if out is None:
        return made
    check_out_dtype("diag", out, made._array)
    write_out("diag", out, made._array)
    return out


@method
def diagflat(input: Any, offset: int = 0) -> Any:
    """A matrix with all elements of `input` on its diagonal.

    >>> import pullback as torch
    >>> torch.diagflat(torch.tensor([[1, 2]]))
    tensor([[1, 0],
            [0, 2]])
    """
    return diag_embed(flatten(input), offset)


def block_diag(*tensors: Any) -> Any:
    """A matrix with the given matrices along its diagonal, zeros elsewhere.

    >>> import pullback as torch
    >>> torch.block_diag(torch.tensor([[1, 2]]), torch.tensor([[3], [4]]))
    tensor([[1, 2, 0],
            [0, 0, 3],
            [0, 0, 4]])
    """
    if not tensors:
        return wrap(numpy.empty((1, 0), numpy.float32))
    for one in tensors:
        if not isinstance(one, Tensor):
            raise errors.not_a_tensor("block_diag", "tensors", one)
        if one.ndim > 2:
            raise RuntimeError(
                f"block_diag: tensors must have at most 2 dimensions, got shape {tuple(one.shape)}."
            )
    blocks = [atleast_2d(one) for one in tensors]
    width = sum(block.shape[1] for block in blocks)
    rows, start = [], 0
    for block in blocks:
        height, size = block.shape
        left = block.new_zeros((height, start))
        right = block.new_zeros((height, width - start - size))
        rows.append(cat([left, block, right], 1))
        start += size
    return shown_as("BlockDiagBackward0", cat(rows, 0))
