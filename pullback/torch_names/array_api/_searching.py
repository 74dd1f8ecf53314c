"""Searching, sorting, sets and selection, as the standard writes it.

What gives values gives them with gradients: those of `unique_values` go to the first of equal ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pullback as torch
from pullback import Tensor

from ._dtypes import check_array, together
from ._manipulation import Axes
from ._statistical import sum as _sum

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "count_nonzero",
    "nonzero",
    "searchsorted",
    "sort",
    "take",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "where",
]


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """As `torch.argmax`."""
    check_array("argmax", x)
    return _place(torch.argmax, x, axis, keepdims=keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """As `torch.argmin`."""
    check_array("argmin", x)
    return _place(torch.argmin, x, axis, keepdims=keepdims)


def _place(find: Any, x: Tensor, axis: int | None, *, keepdims: bool) -> Tensor:
    if x.dtype is torch.bool:
        x = x.to(torch.uint8)
    if axis is not None:
        result: Tensor = find(x, axis, keepdim=keepdims)
        return result
    place: Tensor = find(x.reshape(-1), 0)
    return place.reshape((1,) * x.ndim) if keepdims else place


def count_nonzero(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """As `torch.count_nonzero`, with `keepdims`."""
    check_array("count_nonzero", x)
    return _sum(x != 0, axis=axis, keepdims=keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """As `torch.nonzero` with `as_tuple=True`; ValueError for a 0-d array."""
    check_array("nonzero", x)
    if x.ndim == 0:
        raise ValueError("nonzero: a 0-d array has no places; reshape it to (1,) first.")
    places: Any = torch.nonzero(x, as_tuple=True)
    return tuple(places)


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """As `torch.searchsorted`, of a sorted vector."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side must be 'left' or 'right', got {side!r}.")
    x1, x2 = together("searchsorted", x1, x2)
    if x1.ndim != 1:
        raise ValueError(f"searchsorted: x1 must have 1 dimension, got {x1.ndim}.")
    if sorter is not None:
        x1 = x1[sorter]
    found: Tensor = torch.searchsorted(x1.contiguous(), x2.contiguous(), side=side)
    return found


def where(condition: Tensor, x1: Tensor | complex, x2: Tensor | complex, /) -> Tensor:
    """As `torch.where`, with the promotion of the standard."""
    check_array("where", condition)
    a, b = together("where", x1, x2)
    return torch.where(condition, a, b)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """As `torch.sort`, without the places."""
    check_array("sort", x)
    return torch.sort(x, dim=axis, descending=descending, stable=stable)[0]


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """As `torch.argsort`, and stable unless told otherwise."""
    check_array("argsort", x)
    return torch.sort(x, dim=axis, descending=descending, stable=stable)[1]


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """As `torch.index_select`; negative indices count from the end.

    >>> import pullback.array_api as xp
    >>> xp.take(xp.asarray([10, 20, 30]), xp.asarray([0, -1]))
    tensor([10, 30])
    """
    check_array("take", x)
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: an array of {x.ndim} dimensions needs an axis.")
        axis = 0
    return torch.index_select(x, axis, _from_front(indices, x.shape[axis]))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """As `torch.take_along_dim`; negative indices count from the end."""
    check_array("take_along_axis", x)
    return torch.take_along_dim(x, _from_front(indices, x.shape[axis]), axis)


def _from_front(indices: Tensor, size: int) -> Tensor:
    wide = indices.to(torch.int64)
    return torch.where(wide < 0, wide + size, wide)


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """The different elements, where each is first, which of them each element is, and how often.

    Each NaN is an element of its own.

    >>> import pullback.array_api as xp
    >>> xp.unique_all(xp.asarray([3, 1, 3])).indices
    tensor([1, 0])
    """
    check_array("unique_all", x)
    flat = x.reshape(-1)
    ordered = flat.detach()
    if ordered.is_complex():  # which torch does not sort: by the places of both parts, as NumPy
        (_, real), (parts, imag) = (
            torch.unique(part, return_inverse=True) for part in (ordered.real, ordered.imag)
        )
        ordered = real * parts.shape[0] + imag
    found, inverse, counts = torch.unique(ordered, return_inverse=True, return_counts=True)
    places = torch.arange(flat.shape[0], device=x.device)
    first = torch.full(found.shape, flat.shape[0], dtype=torch.int64, device=x.device)
    first = first.scatter_reduce(0, inverse, places, "amin")
    return UniqueAll(flat[first], first, inverse.reshape(x.shape), counts)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """The different elements, and how often each is there.

    >>> import pullback.array_api as xp
    >>> xp.unique_counts(xp.asarray([3, 1, 3])).counts
    tensor([1, 2])
    """
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """The different elements, and which of them each element is.

    >>> import pullback.array_api as xp
    >>> xp.unique_inverse(xp.asarray([3, 1, 3])).inverse_indices
    tensor([1, 0, 1])
    """
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The different elements, in order.

    >>> import pullback.array_api as xp
    >>> xp.unique_values(xp.asarray([3, 1, 3]))
    tensor([1, 3])
    """
    return unique_all(x).values
