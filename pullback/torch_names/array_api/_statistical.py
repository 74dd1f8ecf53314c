"""Sums, products, means and extremes over axes, as the standard writes it."""

from __future__ import annotations

from typing import Any

import pullback as torch
from pullback import Tensor, dtype

from ._dtypes import UNSIGNED, check_array
from ._manipulation import Axes

__all__ = [
    "all",
    "any",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


def _axes(name: str, x: Tensor, axis: Axes | None) -> tuple[int, ...]:
    """The axes to go over, each counted from the front; none of them for an empty tuple."""
    check_array(name, x)
    if axis is None:
        return tuple(range(x.ndim))
    axes = axis if isinstance(axis, tuple) else (axis,)
    for one in axes:
        if not -x.ndim <= one < x.ndim:
            raise IndexError(f"{name}: axis {one} is not in an array of {x.ndim} dimensions.")
    places = tuple(one % x.ndim for one in axes)
    if len(set(places)) < len(places):
        raise ValueError(f"{name}: an axis comes twice in {axes}.")
    return places


def _sum_dtype(x: Tensor, given: dtype | None) -> dtype:
    """What sums are of unless told: small integers become the default one of their sign."""
    if given is not None:
        return given
    if x.dtype in UNSIGNED:
        return torch.uint64
    return x.dtype if x.is_floating_point() or x.is_complex() else torch.int64


def sum(
    x: Tensor, /, *, axis: Axes | None = None, dtype: dtype | None = None, keepdims: bool = False
) -> Tensor:
    """As `torch.sum`; unsigned integers sum to uint64."""
    axes = _axes("sum", x, axis)
    kind = _sum_dtype(x, dtype)
    if not axes:
        return x.to(kind, copy=True)
    return torch.sum(x, axes, keepdim=keepdims, dtype=kind)


def prod(
    x: Tensor, /, *, axis: Axes | None = None, dtype: dtype | None = None, keepdims: bool = False
) -> Tensor:
    """As `torch.prod`, over several axes too; unsigned integers multiply to uint64.

    >>> import pullback.array_api as xp
    >>> xp.prod(xp.full((2, 3), 2), axis=(0, 1))
    tensor(64)
    """
    axes = _axes("prod", x, axis)
    kind = _sum_dtype(x, dtype)
    if not axes:
        return x.to(kind, copy=True)
    result = torch.prod(_flat_at_end(x, axes), -1, dtype=kind)
    return _kept(result, axes) if keepdims else result


def _flat_at_end(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The axes as one, behind the others."""
    others = [axis for axis in range(x.ndim) if axis not in axes]
    size = 1
    for axis in axes:
        size *= x.shape[axis]
    return torch.permute(x, (*others, *axes)).reshape(*(x.shape[axis] for axis in others), size)


def _kept(result: Tensor, axes: tuple[int, ...]) -> Tensor:
    """With size 1 where axes were."""
    for axis in sorted(axes):
        result = torch.unsqueeze(result, axis)
    return result


def mean(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """As `torch.mean`."""
    axes = _axes("mean", x, axis)
    return torch.mean(x, axes, keepdim=keepdims) if axes else x.clone()


def var(
    x: Tensor, /, *, axis: Axes | None = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """As `torch.var`, with `correction=0` unless told otherwise."""
    axes = _axes("var", x, axis)
    if not axes:
        x, axes = torch.unsqueeze(x, -1), (x.ndim,)
        return torch.var(x, axes, correction=correction)
    return torch.var(x, axes, correction=correction, keepdim=keepdims)


def std(
    x: Tensor, /, *, axis: Axes | None = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """As `torch.std`, with `correction=0` unless told otherwise."""
    axes = _axes("std", x, axis)
    if not axes:
        x, axes = torch.unsqueeze(x, -1), (x.ndim,)
        return torch.std(x, axes, correction=correction)
    return torch.std(x, axes, correction=correction, keepdim=keepdims)


def max(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """As `torch.amax`."""
    axes = _axes("max", x, axis)
    return torch.amax(x, axes, keepdim=keepdims) if axes else x.clone()


def min(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """As `torch.amin`."""
    axes = _axes("min", x, axis)
    return torch.amin(x, axes, keepdim=keepdims) if axes else x.clone()


def all(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """As `torch.all`, of bool whatever the dtype is."""
    axes = _axes("all", x, axis)
    found = x if x.dtype is torch.bool else x != 0
    return torch.all(found, axes, keepdim=keepdims) if axes else found.clone()


def any(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """As `torch.any`, of bool whatever the dtype is."""
    axes = _axes("any", x, axis)
    found = x if x.dtype is torch.bool else x != 0
    return torch.any(found, axes, keepdim=keepdims) if axes else found.clone()


def cumulative_sum(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: dtype | None = None,
    include_initial: bool = False,
) -> Tensor:
    """As `torch.cumsum`; with a zero before it for `include_initial=True`.

    >>> import pullback.array_api as xp
    >>> xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True)
    tensor([0, 1, 3, 6])
    """
    return _cumulative("cumulative_sum", x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Tensor,
    /,
    *,
    axis: int | None = None,
    dtype: dtype | None = None,
    include_initial: bool = False,
) -> Tensor:
    """As `torch.cumprod`; with a one before it for `include_initial=True`.

    >>> import pullback.array_api as xp
    >>> xp.cumulative_prod(xp.asarray([2, 3, 4]))
    tensor([ 2,  6, 24])
    """
    return _cumulative("cumulative_prod", x, axis, dtype, 1 if include_initial else None)


def _cumulative(name: str, x: Tensor, axis: int | None, given: Any, first: int | None) -> Tensor:
    check_array(name, x)
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"{name}: an array of {x.ndim} dimensions needs an axis.")
        axis = 0
    running = torch.cumsum if name == "cumulative_sum" else torch.cumprod
    result: Tensor = running(x, axis, dtype=_sum_dtype(x, given))
    if first is None:
        return result
    shape = list(x.shape)
    shape[axis] = 1
    before = torch.full(shape, first, dtype=result.dtype, device=x.device)
    return torch.cat([before, result], axis)


def diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """As `torch.diff`."""
    check_array("diff", x)
    return torch.diff(x, n, axis, prepend, append)
