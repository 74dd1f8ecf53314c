"""Sparse tensors without specified elements, copies, and other sizes in place."""

from __future__ import annotations

from typing import Any, cast

import numpy

from pullback.core.device import META
from pullback.core.errors import out_requires_grad
from pullback.core.explain import layout_errors as errors
from pullback.core.layout import SPARSE, preserve_format, sparse_coo, sparse_csr, strided
from pullback.core.mode import get_mode
from pullback.core.tensor import Tensor, wrap
from pullback.core.version import bump
from pullback.operators.create.factory import shape_argument
from pullback.operators.declare import method
from pullback.operators.sparse import calls
from pullback.operators.sparse.array import SparseArray, pattern_of
from pullback.operators.sparse.layouts import pattern_in
from pullback.operators.sparse.pattern import Pattern, compressed, coordinates, with_indices

FOUND_IN = {"torch": "resize_as_sparse_"}


def _none(layout: Any, shape: tuple[int, ...], dense_dim: int = 0, block: Any = None) -> Pattern:
    """A pattern of no places."""
    kept = len(shape) - dense_dim
    if layout is not sparse_coo and kept < 2:
        raise RuntimeError(f"A tensor of layout {layout} is a matrix; {shape} is none.")
    indices = numpy.zeros((kept, 0), numpy.int64)
    return pattern_in(layout, indices, shape, dense_dim, block)


def zeros(layout: Any, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """A sparse tensor of zeros: nothing is specified."""
    pattern = _none(layout, shape)
    return wrap(SparseArray(pattern, numpy.zeros(pattern.values_shape, dtype)))


def become_zeros(op: str, out: Any, made: Any) -> Tensor:
    """Put zeros of a sparse layout into a tensor given as `out=`."""
    if out._layout is not made._layout:
        raise RuntimeError(
            f"{op}: layout={made.layout} does not fit out= of layout {out.layout}; give one of "
            "them, or the same for both."
        )
    if out.requires_grad and get_mode().grad:
        raise out_requires_grad(op)
    return cast("Tensor", _become(out, op, made._array))


def example(op: str, input: Any, number: Any, wanted: Any, order: Any) -> Any:
    """A tensor in the layout that a `*_like` function is asked for; its values do not matter."""
    own = input._layout
    if own is sparse_coo and order not in (None, preserve_format):
        raise RuntimeError(f"{op}: memory_format is for dense tensors; leave it out.")
    if wanted is None or wanted is own:
        return input
    if own is not sparse_coo and (wanted is strided or number is not False):
        kept = "torch.strided" if own is None else own
        fault = RuntimeError if own is not None else NotImplementedError
        raise fault(f"{op}: a tensor of layout {kept} is no model for layout {wanted}.")
    if wanted is strided:
        return wrap(numpy.empty(tuple(input.shape), input._array.dtype))
    return zeros(wanted, tuple(input.shape), input._array.dtype)


def like(input: Any, number: Any, dtype: Any, memory_format: Any) -> Tensor:
    """`zeros_like` specifies nothing; the others what a compressed tensor does."""
    if input._layout is sparse_coo or number is False:
        if number:
            raise errors.not_taken(
                "a *_like function that fills with other numbers than 0", input._layout
            )
        made = wrap(input._array.zeros().astype(dtype))
    else:
        pattern = pattern_of(input)
        made = wrap(SparseArray(pattern, numpy.full(pattern.values_shape, number or 0, dtype)))
    return on_meta(made) if input.device is META else made


def on_meta(input: Any, dtype: Any = None) -> Tensor:
    """A tensor of the same size and layout on device "meta": indices and values without data."""
    from pullback.core.memory import meta

    own, array = pattern_of(input), input._array
    lines = tuple(meta.of(one.shape, one.dtype) for one in own.index_arrays)
    pattern = with_indices(own, lines)
    return wrap(SparseArray(pattern, meta.of(pattern.values_shape, dtype or array.dtype)))


def new(input: Any, size: Any, number: Any, dtype: Any) -> Tensor:
    """`new_zeros` and `new_empty`."""
    if number:
        raise errors.not_taken(
            "a new_* function that fills with other numbers than 0", input._layout
        )
    shape = (size,) if isinstance(size, int) else tuple(size)
    return zeros(input._layout, shape, dtype)


def copied(input: Any, src: Any) -> Any:
    """The values of `src` as a tensor like `input`."""
    if input._layout is not src._layout:
        raise errors.not_taken(
            "copy_ between dense and sparse tensors;", input._layout or src._layout
        )
    return src.clone() if src.dtype is input.dtype else src.to(input.dtype)


def copy_(self: Any, other: Any, non_blocking: bool = False) -> Any:
    """Take over places and values of another sparse tensor."""
    if not isinstance(other, Tensor) or other._layout is not self._layout:
        raise RuntimeError(
            f"copy_: a tensor of layout {self.layout} takes one of that layout; convert the "
            "other one with to_sparse() or to_dense()."
        )
    return calls.replace(self, "copy_", copied(self, other))


def zero_(self: Any) -> Any:
    """Forget all specified elements."""
    calls.check_write(self, "zero_", tracked=self.requires_grad)
    array = self._array
    if self._layout is sparse_coo:
        array.become(array.zeros())
    else:
        array.values = numpy.zeros_like(array.values)
    bump(self, "zero_")
    return self


# Other sizes -------------------------------------------------------------------------------------


@method
def sparse_resize_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Another size in place, as long as no specified element would be lost.

    >>> import pullback as torch
    >>> x = torch.eye(2).to_sparse().sparse_resize_((3, 3), 2, 0)
    >>> x.shape, x._nnz()
    (torch.Size([3, 3]), 2)
    """
    own = _resizable(self, "sparse_resize_", size, sparse_dim, dense_dim)
    shape = tuple(int(n) for n in size)
    values = self._array.values
    if own.nnz:
        if (sparse_dim, dense_dim) != (own.sparse_dim, own.dense_dim):
            raise RuntimeError(
                "sparse_resize_: a tensor with specified elements keeps its numbers of sparse and "
                "dense dimensions; use sparse_resize_and_clear_()."
            )
        if any(new < old for new, old in zip(shape, own.shape, strict=True)):
            raise RuntimeError(
                f"sparse_resize_: {own.shape} cannot shrink to {shape} with elements specified; "
                "use sparse_resize_and_clear_()."
            )
        grown = numpy.zeros((own.nnz, *shape[sparse_dim:]), values.dtype)
        grown[(slice(None), *(slice(0, n) for n in values.shape[1:]))] = values
        pattern = coordinates(own.stored, shape, dense_dim, coalesced=own.coalesced)
        return _become(self, "sparse_resize_", SparseArray(pattern, grown))
    return sparse_resize_and_clear_(self, size, sparse_dim, dense_dim)


@method
def sparse_resize_and_clear_(self: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Another size in place; all specified elements are dropped.

    >>> import pullback as torch
    >>> x = torch.eye(4).to_sparse().sparse_resize_and_clear_((2, 2), 2, 0)
    >>> x.shape, x._nnz()
    (torch.Size([2, 2]), 0)
    """
    _resizable(self, "sparse_resize_and_clear_", size, sparse_dim, dense_dim)
    shape = tuple(int(n) for n in size)
    pattern = _none(sparse_coo, shape, dense_dim)
    empty = SparseArray(pattern, numpy.zeros(pattern.values_shape, self._array.dtype))
    return _become(self, "sparse_resize_and_clear_", empty)


def _resizable(self: Any, op: str, size: Any, sparse_dim: int, dense_dim: int) -> Pattern:
    if self._layout is not sparse_coo:
        raise errors.wants(op, "torch.sparse_coo", self.layout)
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"{op}: {sparse_dim} sparse and {dense_dim} dense dimensions do not make the "
            f"{len(size)} of {tuple(size)}."
        )
    _check_no_grad(self, op)
    return pattern_of(self)


def _become(self: Any, op: str, array: SparseArray) -> Any:
    calls.check_write(self, op, tracked=False)
    self._array.become(array)
    bump(self, op)
    return self


def resize_(self: Any, *sizes: Any, size: Any = None, memory_format: Any = None) -> Any:
    """Other numbers of rows and columns of a matrix of compressed rows; nothing is lost."""
    if self._layout is not sparse_csr:
        raise errors.not_taken("resize_", self._layout)
    rows, columns = shape_argument("resize_", sizes, size)
    own = pattern_of(self)
    if rows < own.shape[0] or columns < own.shape[1]:
        raise RuntimeError(
            f"resize_: {own.shape} cannot shrink to {(rows, columns)} in layout {self.layout}; "
            "specified elements would be lost."
        )
    _check_no_grad(self, "resize_")
    more = numpy.repeat(own.compressed[..., -1:], rows - own.shape[0], -1)
    starts = numpy.concatenate([own.compressed, more], -1)
    pattern = compressed(own.layout, starts, own.plain, (rows, columns))
    return _become(self, "resize_", SparseArray(pattern, self._array.values))


def _resized_as(self: Any, template: Any) -> Any:
    """The pattern of another compressed tensor; values stay as far as there are as many."""
    if template._layout is not self._layout:
        raise RuntimeError(
            f"resize_as_sparse_: the model must have layout {self.layout}, got {template.layout}."
        )
    _check_no_grad(self, "resize_as_sparse_")
    pattern, old = pattern_of(template), self._array.values.reshape(-1)
    values = numpy.zeros(pattern.values_shape, old.dtype)
    kept = min(values.size, old.size)
    values.reshape(-1)[:kept] = old[:kept]
    return _become(self, "resize_as_sparse_", SparseArray(pattern, values))


def _check_no_grad(self: Any, op: str) -> None:
    if self.requires_grad:
        raise RuntimeError(f"{op}: a tensor that requires grad cannot change its size.")


@method
def resize_as_sparse_(self: Any, the_template: Any) -> Any:
    """The size, sparse and dense dimensions of another sparse tensor, in place.

    >>> import pullback as torch
    >>> x = torch.sparse_coo_tensor(size=(2, 2))
    >>> x.resize_as_sparse_(torch.ones(3, 4).to_sparse()).shape
    torch.Size([3, 4])
    """
    if self._layout not in SPARSE or the_template._layout not in SPARSE:
        raise RuntimeError(
            f"resize_as_sparse_: both tensors must be sparse, got {self.layout} and "
            f"{the_template.layout}."
        )
    if self._layout is not sparse_coo:
        return _resized_as(self, the_template)
    return sparse_resize_(
        self, tuple(the_template.shape), the_template.sparse_dim(), the_template.dense_dim()
    )
