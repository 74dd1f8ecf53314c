"""Functions that make sparse tensors of indices and values."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.device import META
from pullback.core.dtype import as_dtype, default
from pullback.core.layout import layout as layout_type
from pullback.core.layout import sparse_bsc, sparse_bsr, sparse_csc, sparse_csr
from pullback.core.mode import settle
from pullback.core.tensor import Tensor, wrap
from pullback.core.version import INFERENCE_CELL, own_cell
from pullback.operators.create.data import as_tensor
from pullback.operators.create.factory import checked, unmarked
from pullback.operators.running.naming import shown_as
from pullback.operators.shape.reshaping import reshape
from pullback.operators.sparse import convert as _convert  # noqa: F401 (installs the table)
from pullback.operators.sparse.array import is_sparse
from pullback.operators.sparse.checks import (
    check_contents,
    check_given,
    check_shapes,
    checking,
    index_array,
)
from pullback.operators.sparse.filled import on_meta
from pullback.operators.sparse.pattern import (
    BLOCKED,
    BY_ROW,
    COMPRESSED,
    Pattern,
    compressed,
    coordinates,
)
from pullback.operators.sparse.primitives import from_values

FOUND_IN = {
    "torch": """
        sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor
        sparse_csc_tensor sparse_csr_tensor
    """
}


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A tensor of the values at the coordinates in the columns of `indices`; duplicates add up.

    The size alone gives a tensor of zeros; without one it is as large as the indices need. Values
    may have dimensions after the first: those are dense.

    Example:
        >>> import pullback as torch
        >>> x = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
        >>> x.to_dense()
        tensor([[0., 0., 3.],
                [4., 0., 0.]])
    """
    settle()
    op = "sparse_coo_tensor"
    options = {"dtype": dtype, "device": device, "pin_memory": pin_memory}
    if indices is None and size is None:
        raise TypeError(f"{op}: needs indices and values, or the size of a tensor without any.")
    if values is None:
        return _empty_coo(indices if size is None else size, options, requires_grad)
    rows = _values(op, values, options, requires_grad)
    places = index_array(op, "indices", indices, whole=False).astype(numpy.int64)
    if places.ndim != 2:
        raise RuntimeError(
            f"{op}: indices must have two dimensions (sparse dimensions, elements), got shape "
            f"{places.shape}."
        )
    if not rows.ndim:
        rows = reshape(rows, (1,))
    if len(rows) != places.shape[1]:
        raise RuntimeError(
            f"{op}: indices and values must be about the same number of elements, got "
            f"{places.shape[1]} columns and values of shape {tuple(rows.shape)}."
        )
    shape = _shape_for(op, places, rows) if size is None else tuple(int(n) for n in size)
    if len(places) + rows.ndim - 1 != len(shape):
        raise RuntimeError(
            f"{op}: {len(places)} rows of indices and values of {rows.ndim - 1} dense dimensions "
            f"do not make the {len(shape)} dimensions of size {shape}."
        )
    pattern = coordinates(places, shape, rows.ndim - 1)
    if is_coalesced is not None:
        pattern.coalesced = is_coalesced
    return _finished(op, pattern, rows, check_invariants, requires_grad, (indices,))


def _shape_for(op: str, places: Array, values: Any) -> tuple[int, ...]:
    for dim, row in enumerate(places):
        if row.size and row.min() < 0:
            raise RuntimeError(f"{op}: index {int(row.min())} in dimension {dim} is negative.")
    found = (int(row.max()) + 1 if row.size else 0 for row in places)
    return (*found, *values.shape[1:])


def _empty_coo(size: Any, options: dict[str, Any], requires_grad: bool) -> Tensor:
    shape = tuple(int(n) for n in size)
    wanted = checked("sparse_coo_tensor", options, default.numpy)  # type: ignore[arg-type]  # a dict
    kept, place = unmarked(wanted)
    none = numpy.zeros((len(shape), 0), numpy.int64)
    rows = wrap(numpy.zeros(0, kept))
    pattern = coordinates(none, shape, 0, coalesced=True)
    if place is not None:
        return on_meta(from_values(rows, pattern)).requires_grad_(requires_grad)
    return _finished("sparse_coo_tensor", pattern, rows, None, requires_grad)


def _values(op: str, values: Any, options: dict[str, Any], requires_grad: bool) -> Any:
    if isinstance(values, Tensor):
        if values._layout is not None:
            raise RuntimeError(f"{op}: values must be a dense tensor, got {values.layout}.")
        checked(op, options, values._array.dtype)  # type: ignore[arg-type]  # a dict
        wanted = options["dtype"]
        rows = values if wanted is None else values.to(as_dtype(wanted))
        return rows.detach() if requires_grad else rows
    return as_tensor(values, dtype=options["dtype"], device=options["device"])


def _finished(
    op: str,
    pattern: Pattern,
    values: Any,
    check: bool | None,
    requires_grad: bool,
    indices: tuple[Any, ...] = (),
) -> Tensor:
    if not isinstance(requires_grad, bool):
        raise TypeError(f"{op}(): requires_grad must be a bool.")
    check_shapes(op, pattern, values)
    if (check or (check is None and checking.enabled)) and values.device is not META:
        if pattern.stored is None:
            check_given(op, indices)
        check_contents(op, pattern)
    coo = pattern.stored is not None
    node = "SparseCooTensorWithDimsAndTensors" if coo else "SparseCompressedTensor"
    made: Tensor = shown_as(f"{node}Backward0", from_values(values, pattern))
    if is_sparse(made):  # not so inside vmap, where it is one of many
        if made._array.values is values._array and made._cell is not INFERENCE_CELL:
            made._cell = own_cell(values)  # one memory
        made._array.shown = _shared_with(indices, pattern)
    return made.requires_grad_() if requires_grad else made


def _shared_with(indices: tuple[Any, ...], pattern: Pattern) -> tuple[Tensor, ...] | None:
    """The user's index tensors, if the sparse tensor stands on their memory as in torch."""
    own = pattern.index_arrays
    if indices and all(
        isinstance(one, Tensor)
        and type(one._array) is type(kept) is numpy.ndarray
        and one._array.dtype == kept.dtype
        for one, kept in zip(indices, own, strict=True)
    ):
        return tuple(one.detach() for one in indices)
    return None


# Compressed rows and columns ----------------------------------------------------------------------


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A tensor of compressed rows (CSR, BSR) or columns (CSC, BSC), of elements or of blocks.

    Example:
        >>> import pullback as torch
        >>> x = torch.sparse_compressed_tensor([0, 1, 2], [1, 0], [3, 4], layout=torch.sparse_csr)
        >>> x.to_dense()
        tensor([[0, 3],
                [4, 0]])
    """
    if layout is None:
        raise RuntimeError("sparse_compressed_tensor: say which layout, e.g. torch.sparse_csr.")
    options = {"dtype": dtype, "device": device, "pin_memory": pin_memory}
    op = "sparse_compressed_tensor"
    given = (compressed_indices, plain_indices, values, size)
    return _compressed(op, layout, given, options, requires_grad, check_invariants)


def _compressed(
    op: str,
    layout: layout_type,
    given: tuple[Any, ...],
    options: dict[str, Any],
    requires_grad: bool,
    check: bool | None,
) -> Tensor:
    settle()
    if layout not in COMPRESSED:
        raise RuntimeError(f"{op}: layout {layout} is not one of compressed rows or columns.")
    starts, plain = (index_array(op, "indices", one).copy() for one in given[:2])
    rows = _values(op, given[2], options, requires_grad)
    batch = starts.ndim - 1
    if starts.ndim < 1 or plain.ndim != starts.ndim or starts.shape[:-1] != plain.shape[:-1]:
        raise RuntimeError(
            f"{op}: both kinds of indices must have the same batch dimensions and one more, got "
            f"shapes {starts.shape} and {plain.shape}."
        )
    block = tuple(rows.shape[batch + 1 : batch + 3]) if layout in BLOCKED else ()
    if layout in BLOCKED and len(block) != 2:
        raise RuntimeError(f"{op}: values of layout {layout} must hold blocks of two dimensions.")
    shape = given[3]
    if shape is None:
        shape = _matrix_shape(layout, starts, plain, rows, block)
    shape = tuple(int(n) for n in shape)
    if len(shape) < batch + 2:
        raise RuntimeError(f"{op}: size {shape} has too few dimensions for {batch} of a batch.")
    pattern = compressed(layout, starts, plain, shape, block)
    _check_lengths(op, pattern)
    return _finished(op, pattern, rows, check, requires_grad, tuple(given[:2]))


def _check_lengths(op: str, pattern: Pattern) -> None:
    side = -2 if pattern.layout in BY_ROW else -1
    lines = pattern.sparse_shape[side] // (pattern.block[side] if pattern.block else 1)
    if pattern.compressed.shape[-1] != lines + 1:
        raise RuntimeError(
            f"{op}: size {pattern.shape} needs {lines + 1} compressed indices, got "
            f"{pattern.compressed.shape[-1]}."
        )


def _matrix_shape(
    layout: layout_type, starts: Array, plain: Array, rows: Any, block: tuple[int, ...]
) -> tuple[int, ...]:
    lines = starts.shape[-1] - 1
    across = int(plain.max()) + 1 if plain.size else 0
    sizes = (lines, across) if layout in BY_ROW else (across, lines)
    if block:
        sizes = (sizes[0] * block[0], sizes[1] * block[1])
    batch = starts.ndim - 1
    return (*starts.shape[:-1], *sizes, *rows.shape[batch + 1 + len(block) :])


def _maker(name: str, layout: layout_type, first: str, second: str, what: str) -> Any:
    def make(
        compressed_indices: Any,
        plain_indices: Any,
        values: Any,
        size: Any = None,
        *,
        dtype: Any = None,
        device: Any = None,
        pin_memory: bool = False,
        requires_grad: bool = False,
        check_invariants: bool | None = None,
    ) -> Tensor:
        options = {"dtype": dtype, "device": device, "pin_memory": pin_memory}
        given = (compressed_indices, plain_indices, values, size)
        return _compressed(name, layout, given, options, requires_grad, check_invariants)

    def named(*args: Any, **options: Any) -> Tensor:
        for theirs, ours in ((first, "compressed_indices"), (second, "plain_indices")):
            if theirs in options:
                options[ours] = options.pop(theirs)
        return make(*args, **options)

    named.__name__ = named.__qualname__ = name
    values = "[[[5.0]], [[6.0]]]" if "blocks" in what else "[5.0, 6.0]"
    named.__doc__ = f"""A tensor of {what}: `{first}`, `{second}`, `values` and `size`.

    >>> import pullback as torch
    >>> torch.{name}([0, 1, 2], [1, 0], {values}).shape
    torch.Size([2, 2])
    """
    return named


sparse_csr_tensor = _maker(
    "sparse_csr_tensor", sparse_csr, "crow_indices", "col_indices", "compressed rows"
)
sparse_csc_tensor = _maker(
    "sparse_csc_tensor", sparse_csc, "ccol_indices", "row_indices", "compressed columns"
)
sparse_bsr_tensor = _maker(
    "sparse_bsr_tensor", sparse_bsr, "crow_indices", "col_indices", "compressed rows of blocks"
)
sparse_bsc_tensor = _maker(
    "sparse_bsc_tensor", sparse_bsc, "ccol_indices", "row_indices", "compressed columns of blocks"
)
