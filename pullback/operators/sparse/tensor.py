"""The class of sparse tensors: a tensor whose array is a `SparseArray`, in any of the five layouts.

Fast paths read `_plain` of their operands, which sparse tensors do not give: the line leaves
for the interpreter, which asks `calls.py`. So dense tensors pay nothing for sparse ones.
"""

from __future__ import annotations

from typing import Any

from pullback.core import overriding
from pullback.core.layout import layout, sparse_coo, sparse_csr
from pullback.core.tensor import Tensor
from pullback.operators.sparse.array import SparseArray

__all__ = ["SparseTensor"]

_slot: Any = Tensor.__dict__["_array"]


class SparseTensor(Tensor):
    """A tensor that keeps its specified elements alone."""

    __slots__ = ()

    # No class of a user's: results are of the kind that operators give them.
    __torch_function__ = overriding.disabled_function

    @property
    def _layout(self) -> layout:
        kind: layout = _slot.__get__(self)._pattern.layout
        return kind

    @property
    def layout(self) -> layout:
        """How elements are stored: one of torch.sparse_coo, sparse_csr, sparse_csc ..."""
        return self._layout

    @property
    def is_sparse(self) -> bool:
        """Whether the layout is torch.sparse_coo."""
        return self._layout is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        """Whether the layout is torch.sparse_csr."""
        return self._layout is sparse_csr


def _bail_out(self: SparseTensor) -> SparseArray:
    """What fast paths read: they leave, and the interpreter looks for who takes the kind."""
    raise overriding.Overridden


SparseTensor._plain = property(_bail_out)  # see core/overriding.py
SparseArray.tensor_class = SparseTensor
