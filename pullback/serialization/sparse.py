"""Sparse tensors in files: as torch writes them, a layout and the tensors they consist of."""

from __future__ import annotations

from typing import Any

from pullback.core.layout import layout, sparse_coo
from pullback.core.size import Size
from pullback.core.tensor import Tensor, wrap
from pullback.operators.sparse.array import pattern_of
from pullback.operators.sparse.create import sparse_compressed_tensor, sparse_coo_tensor
from pullback.operators.sparse.pattern import COMPRESSED
from pullback.serialization.budget import refuse

__all__ = ["parts_of", "rebuilt"]


def parts_of(tensor: Tensor) -> tuple[Any, ...]:
    """What torch's function for sparse tensors is given: the layout, and a tuple of parts."""
    pattern, values = pattern_of(tensor), wrap(tensor._array.values)
    size = Size(pattern.shape)
    if pattern.stored is not None:
        return pattern.layout, (wrap(pattern.stored), values, size, pattern.coalesced)
    return pattern.layout, (wrap(pattern.compressed), wrap(pattern.plain), values, size)


def rebuilt(kind: Any, data: Any) -> Tensor:
    """The tensor of these parts; what a file claims is checked, bounds of indices too."""
    if not isinstance(kind, layout) or type(data) is not tuple or len(data) not in (3, 4):
        raise refuse("a sparse tensor has no layout, or not the parts of one")
    tensors = 2 if kind is sparse_coo else 3
    parts, rest = data[:tensors], data[tensors:]
    if any(not isinstance(one, Tensor) or one._layout is not None for one in parts) or not rest:
        raise refuse("a sparse tensor is made of something else than dense tensors")
    size = tuple(rest[0])
    if any(type(n) is not int or n < 0 for n in size):
        raise refuse("the size of a sparse tensor is not made of whole numbers from 0 on")
    try:
        if kind is sparse_coo:
            coalesced = bool(rest[1]) if len(rest) > 1 else None
            options: dict[str, Any] = {"check_invariants": True, "is_coalesced": coalesced}
            return sparse_coo_tensor(parts[0], parts[1], size, **options)
        if kind in COMPRESSED:
            return sparse_compressed_tensor(
                parts[0], parts[1], parts[2], size, layout=kind, check_invariants=True
            )
    except (RuntimeError, TypeError, ValueError) as error:
        raise refuse(f"the parts of a sparse tensor do not fit: {error}") from None
    raise refuse(f"{kind} is no layout of sparse tensors")
