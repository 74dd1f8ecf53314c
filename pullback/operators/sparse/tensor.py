"""The class of sparse tensors: a tensor whose array is a `SparseArray`, in any of the five layouts.

The straight line of an operator begins by reading `_array` of its operands and leaves for the
interpreter where that is an AttributeError. For sparse tensors it is, for that reader alone; the
interpreter then asks `calls.py`. So dense tensors pay nothing for there being sparse ones.
"""

from __future__ import annotations

from typing import Any

from pullback.core.layout import layout, sparse_coo, sparse_csr
from pullback.core.origin import GENERATED, getframe
from pullback.core.tensor import Tensor
from pullback.operators.sparse.array import SparseArray

__all__ = ["SparseTensor"]

_slot: Any = Tensor.__dict__["_array"]


class SparseTensor(Tensor):
    """A tensor that keeps its specified elements alone."""

    __slots__ = ()

    def _read(self) -> SparseArray:
        code = getframe(1).f_code
        if code.co_name == "written" or (
            code.co_name == "<listcomp>" and code.co_filename.startswith(GENERATED)
        ):
            raise AttributeError("_array: sparse")
        array: SparseArray = _slot.__get__(self)
        return array

    _array = property(_read, _slot.__set__)

    @property
    def _kind(self) -> layout:
        return _slot.__get__(self).pattern.layout

    @property
    def layout(self) -> layout:
        """How elements are stored: one of torch.sparse_coo, sparse_csr, sparse_csc ..."""
        return self._kind

    @property
    def is_sparse(self) -> bool:
        """Whether the layout is torch.sparse_coo."""
        return self._kind is sparse_coo

    @property
    def is_sparse_csr(self) -> bool:
        """Whether the layout is torch.sparse_csr."""
        return self._kind is sparse_csr


SparseArray.tensor_class = SparseTensor
