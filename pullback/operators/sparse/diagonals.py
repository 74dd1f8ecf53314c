"""Sparse matrices from their diagonals."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.layout import sparse_coo
from pullback.core.tensor import Tensor
from pullback.operators.shape.reshaping import reshape
from pullback.operators.sparse import convert
from pullback.operators.sparse.pattern import coordinates
from pullback.operators.sparse.primitives import _rows_at, from_values

FOUND_IN = {"sparse": "spdiags"}


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """A sparse matrix with the rows of `diagonals` along the diagonals that `offsets` name.

    Element j of a row stands in column j.

    Example:
        >>> import pullback as torch
        >>> d = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> torch.sparse.spdiags(d, torch.tensor([0, 1]), (2, 2)).to_dense()
        tensor([[1., 4.],
                [0., 2.]])
    """
    rows = reshape(diagonals, (1, -1)) if diagonals.ndim == 1 else diagonals
    numbers = offsets._array.reshape(-1)
    if rows.ndim != 2 or numbers.dtype.kind not in "iu" or len(shape) != 2:
        raise RuntimeError(
            "sparse.spdiags: needs a matrix, offsets that are integers, and 2 sizes."
        )
    if len(numbers) != len(rows):
        raise RuntimeError(f"sparse.spdiags: {len(rows)} diagonals, but {len(numbers)} offsets.")
    if len(numpy.unique(numbers)) != len(numbers):
        raise RuntimeError("sparse.spdiags: an offset is there twice.")
    length = rows.shape[1]
    column = numpy.tile(numpy.arange(length), len(rows))
    row = column - numbers.repeat(length)
    inside = numpy.flatnonzero((row >= 0) & (row < shape[0]) & (column < shape[1]))
    pattern = coordinates(numpy.stack([row, column])[:, inside], tuple(shape), 0)
    made = from_values(_rows_at(reshape(rows, (-1,)), inside), pattern)
    if layout is None or layout is sparse_coo:
        return made
    return convert.to_sparse(made, layout=layout)
