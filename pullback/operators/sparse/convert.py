"""From one layout to another, and what a sparse tensor tells of its indices and values."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.dtype import as_dtype
from pullback.core.explain import layout_errors as errors
from pullback.core.layout import layout as layout_type
from pullback.core.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from pullback.core.tensor import Tensor, wrap
from pullback.core.version import own_cell
from pullback.operators.declare import METHODS
from pullback.operators.indexing.rows import index_add
from pullback.operators.running.naming import shown_as
from pullback.operators.sparse import calls
from pullback.operators.sparse.array import pattern_of
from pullback.operators.sparse.layouts import pattern_in, places_of_dense
from pullback.operators.sparse.pattern import BY_ROW, COMPRESSED, Pattern, declared, numbered_like
from pullback.operators.sparse.primitives import (
    _whole,
    as_dense,
    at_places,
    from_values,
    rows_by,
    rows_of,
    values_of,
)

__all__: list[str] = []

_NAMES = {
    "coo": sparse_coo,
    "csr": sparse_csr,
    "csc": sparse_csc,
    "bsr": sparse_bsr,
    "bsc": sparse_bsc,
}


# To sparse and back -------------------------------------------------------------------------------


def to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: Any = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:
    """The elements that are not zero, as a tensor of coordinates or of another sparse layout.

    The first `sparse_dim` dimensions are sparse, the others dense.

    Example:
        >>> import pullback as torch
        >>> torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
        tensor(indices=tensor([[0],
                               [1]]),
               values=tensor([2.]),
               size=(2, 2), nnz=1, layout=torch.sparse_coo)
    """
    if layout is strided:
        return to_dense(self)
    wanted = sparse_coo if layout is None else layout
    blocksize = _pair(blocksize)
    if blocksize is not None and wanted is sparse_coo:
        raise RuntimeError("to_sparse: blocksize goes with a layout of blocks, torch.sparse_bsr.")
    if sparse_dim is not None and (layout is not None or blocksize is not None):
        raise RuntimeError("to_sparse: give sparse_dim, or layout with its options, not both.")
    if wanted not in _NAMES.values():
        raise RuntimeError(f"to_sparse: {wanted} is no sparse layout.")
    if self._layout is not None:
        return _to_layout(self, wanted, blocksize, sparse_dim)
    return _from_dense(self, wanted, sparse_dim, dense_dim, blocksize)


def _pair(blocksize: Any) -> tuple[int, ...] | None:
    """Sizes of blocks; one number is for both sides."""
    if blocksize is None:
        return None
    return (blocksize, blocksize) if isinstance(blocksize, int) else tuple(blocksize)


def _from_dense(
    x: Tensor, layout: layout_type, sparse_dim: int | None, dense_dim: int | None, blocksize: Any
) -> Tensor:
    ndim = x.ndim
    dense = 0 if dense_dim is None else dense_dim
    if layout is sparse_coo:
        kept = ndim - dense if sparse_dim is None else sparse_dim
        if not 0 <= kept <= ndim or (ndim and not kept):
            raise RuntimeError(
                f"to_sparse: sparse_dim {kept} is not between 1 and {ndim}, the number of "
                "dimensions."
            )
    else:
        kept = ndim - dense
        if kept < 2:
            raise RuntimeError(
                f"to_sparse: layout {layout} is for matrices; {ndim} dimensions, {dense} of them "
                "dense, are too few."
            )
    places = places_of_dense(x._array, kept)
    pattern = pattern_in(layout, places, tuple(x.shape), ndim - kept, blocksize)
    return shown_as("ToSparseBackward0", from_values(at_places(x, pattern), pattern))


def _to_layout(x: Tensor, layout: layout_type, blocksize: Any, sparse_dim: int | None) -> Tensor:
    own = pattern_of(x)
    block = tuple(blocksize) if blocksize is not None else None
    if own.layout is layout and (block is None or block == own.block):
        if sparse_dim is not None and sparse_dim != own.sparse_dim:
            raise RuntimeError(
                f"to_sparse: the tensor is sparse in {own.sparse_dim} dimensions already, not in "
                f"{sparse_dim}. Call to_dense() first."
            )
        return x
    if layout is sparse_coo:
        return shown_as("ToSparseBackward0", from_values(rows_of(x), own.as_coordinates))
    if own.stored is not None and len(own.stored) < 2:
        raise RuntimeError(f"to_sparse: layout {layout} needs two sparse dimensions or more.")
    pattern = pattern_in(layout, own.indices, own.shape, own.dense_dim, block)
    pattern = numbered_like(pattern, own)
    if own.coalesced and layout is sparse_csr and not pattern.batch_shape:  # the same order
        return shown_as("ToSparseCsrBackward0", from_values(rows_of(x), pattern))
    name = f"ToSparse{layout._name[-3:].capitalize()}Backward0"
    return shown_as(name, from_values(at_places(x, pattern), pattern))


def _converter(name: str) -> Any:
    layout = _NAMES[name]
    blocked = name[0] == "b"

    def convert(self: Tensor, dense_dim: int | None = None) -> Tensor:
        return to_sparse(self, layout=layout, dense_dim=dense_dim)

    def convert_blocks(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
        return to_sparse(self, layout=layout, blocksize=blocksize, dense_dim=dense_dim)

    made = convert_blocks if blocked else convert
    made.__name__ = made.__qualname__ = f"to_sparse_{name}"
    size = "(1, 1)" if blocked else ""
    made.__doc__ = f"""The tensor in layout torch.sparse_{name}.

    >>> import pullback as torch
    >>> torch.eye(2).to_sparse_{name}({size}).layout
    torch.sparse_{name}
    """
    return made


CONVERTERS = {f"to_sparse_{name}": _converter(name) for name in _NAMES if name != "coo"}


def to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor in layout torch.sparse_coo.

    >>> import pullback as torch
    >>> torch.eye(2).to_sparse_coo().indices()
    tensor([[0, 1],
            [0, 1]])
    """
    return to_sparse(self)


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """All elements; the gradient stays at the specified ones unless `masked_grad=False`.

    Example:
        >>> import pullback as torch
        >>> torch.eye(2).to_sparse().to_dense()
        tensor([[1., 0.],
                [0., 1.]])
    """
    made: Tensor = self
    if self._layout is not None:
        made = _whole(self, pattern_of(self)) if masked_grad is False else as_dense(self)
    return made if dtype is None else made.to(as_dtype(dtype))


# What it consists of -----------------------------------------------------------------------------


def _coo(self: Tensor, op: str) -> Pattern:
    if self._layout is not sparse_coo:
        raise errors.wants(op, "torch.sparse_coo", self.layout)
    return pattern_of(self)


def coalesce(self: Tensor) -> Tensor:
    """The same tensor with sorted coordinates, each once; duplicates are added up.

    >>> import pullback as torch
    >>> x = torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,))
    >>> x.coalesce().values()
    tensor([3.])
    """
    pattern = _coo(self, "coalesce")
    if pattern.coalesced:
        return self
    merged, numbers, first = pattern.merging
    rows = summed_rows(rows_by(self, pattern), numbers, len(first))
    return shown_as("CoalesceBackward0", from_values(rows, merged))


def summed_rows(rows: Any, numbers: Any, count: int) -> Any:
    """Rows added up by their group's number."""
    zeros = wrap(numpy.zeros((count, *rows.shape[1:]), rows._array.dtype))
    if rows.dtype.is_floating_point or rows.dtype.is_complex:
        return index_add(zeros, 0, wrap(numbers), rows)
    numpy.add.at(zeros._array, numbers, rows._array)
    return zeros


def is_coalesced(self: Tensor) -> bool:
    """Whether coordinates are known to be sorted, each once.

    >>> import pullback as torch
    >>> torch.tensor([0.0, 5.0]).to_sparse().is_coalesced()
    True
    """
    return _coo(self, "is_coalesced").coalesced


def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Say whether coordinates are sorted, each once."""
    self._array._pattern = declared(_coo(self, "_coalesced_"), coalesced=coalesced)
    return self


def indices(self: Tensor) -> Tensor:
    """The coordinates, a column for each element; of a coalesced tensor.

    >>> import pullback as torch
    >>> torch.tensor([0.0, 5.0]).to_sparse().indices()
    tensor([[1]])
    """
    pattern = _coo(self, "indices")
    if not pattern.coalesced:
        raise _uncoalesced("indices")
    return _shown(self)[0]


def _shown(self: Tensor) -> tuple[Tensor, ...]:
    shown: tuple[Tensor, ...] = self._array.show()
    return shown


def values(self: Tensor) -> Tensor:
    """The values, with history; of a coalesced tensor or a compressed one.

    >>> import pullback as torch
    >>> torch.tensor([0.0, 5.0]).to_sparse().values()
    tensor([5.])
    """
    if self._layout is None:
        raise errors.wants("values", "torch.sparse_coo or a compressed one", self.layout)
    if self._layout is sparse_coo and not pattern_of(self).coalesced:
        raise _uncoalesced("values")
    made: Tensor = values_of(self)
    return made


def _uncoalesced(op: str) -> RuntimeError:
    return RuntimeError(
        f"{op}: the tensor may have several values at one place; call coalesce() first, or use "
        f"_{op}()."
    )


def _indices(self: Tensor) -> Tensor:
    """The coordinates as they are stored."""
    _coo(self, "_indices")
    return _shown(self)[0]


def _values(self: Tensor) -> Tensor:
    """The values as they are stored, without history."""
    _coo(self, "_values")
    made = wrap(self._array.values)
    made._cell = own_cell(self)
    return made


def _nnz(self: Tensor) -> int:
    """How many values, or blocks of values, are specified."""
    if self._layout is None:
        raise errors.wants("_nnz", "torch.sparse_coo or a compressed one", self.layout)
    return pattern_of(self).nnz


def sparse_dim(self: Tensor) -> int:
    """How many dimensions are sparse.

    >>> import pullback as torch
    >>> torch.eye(2).to_sparse().sparse_dim()
    2
    """
    return 0 if self._layout is None else pattern_of(self).sparse_dim


def dense_dim(self: Tensor) -> int:
    """How many dimensions are dense.

    >>> import pullback as torch
    >>> torch.zeros(2, 3).to_sparse(1).dense_dim()
    1
    """
    return self.ndim if self._layout is None else pattern_of(self).dense_dim


def _lines(name: str, *, by_row: bool, compressed: bool) -> Any:
    def read(self: Tensor) -> Tensor:
        kind: Any = self._layout
        if kind not in COMPRESSED or (kind in BY_ROW) is not by_row:
            wanted = "sparse_csr or sparse_bsr" if by_row else "sparse_csc or sparse_bsc"
            raise errors.wants(name, f"torch.{wanted}", self.layout)
        return _shown(self)[0 if compressed else 1]

    read.__name__ = read.__qualname__ = name
    layout = "csr" if by_row else "csc"
    read.__doc__ = f"""The {"compressed" if compressed else "plain"} indices.

    >>> import pullback as torch
    >>> torch.eye(2).to_sparse_{layout}().{name}()
    tensor([{"0, 1, 2" if compressed else "0, 1"}])
    """
    return read


LINES = {
    name: _lines(name, by_row=by_row, compressed=compressed)
    for name, by_row, compressed in (
        ("crow_indices", True, True),
        ("col_indices", True, False),
        ("ccol_indices", False, True),
        ("row_indices", False, False),
    )
}


# Other sizes and places ---------------------------------------------------------------------------


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements at the places that a sparse tensor specifies, in its layout.

    >>> import pullback as torch
    >>> torch.tensor([1.0, 2.0]).sparse_mask(torch.tensor([0.0, 1.0]).to_sparse()).to_dense()
    tensor([0., 2.])
    """
    if not isinstance(mask, Tensor) or mask._layout is None:
        raise RuntimeError("sparse_mask: the mask must be a sparse tensor.")
    if tuple(self.shape) != tuple(mask.shape):
        raise RuntimeError(
            f"sparse_mask: the tensor has shape {tuple(self.shape)}, the mask "
            f"{tuple(mask.shape)}; they must be the same."
        )
    pattern = pattern_of(mask)
    return shown_as("SparseMaskBackward0", from_values(at_places(self, pattern), pattern))


for _method in (
    *(to_sparse, to_sparse_coo, to_dense, coalesce, is_coalesced, _coalesced_, indices, values),
    *(_indices, _values, _nnz, sparse_dim, dense_dim, sparse_mask),
    *(*CONVERTERS.values(), *LINES.values()),
):
    METHODS[_method.__name__] = _method
METHODS["_dimI"], METHODS["_dimV"] = sparse_dim, dense_dim
calls.install()
