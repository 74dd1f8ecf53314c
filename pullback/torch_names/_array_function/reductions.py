"""Sums, means, extremes and other reductions, and running ones."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as torch
from pullback import Tensor, array_api

from ._table import answers, as_tensor, kept, kind_of


def _as_axes(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


@answers(np.sum)
def _sum(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False) -> Tensor:
    return array_api.sum(
        as_tensor(a), axis=_as_axes(axis), dtype=kind_of(dtype), keepdims=kept(keepdims)
    )


@answers(np.prod)
def _prod(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False) -> Tensor:
    return array_api.prod(
        as_tensor(a), axis=_as_axes(axis), dtype=kind_of(dtype), keepdims=kept(keepdims)
    )


def _floating(a: Any, dtype: Any) -> Tensor:
    """What a mean is taken of: integers as floats."""
    x = as_tensor(a)
    if dtype is not None:
        return x.to(kind_of(dtype))
    return x if x.is_floating_point() or x.is_complex() else x.to(torch.float64)


@answers(np.mean)
def _mean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False) -> Tensor:
    return array_api.mean(_floating(a, dtype), axis=_as_axes(axis), keepdims=kept(keepdims))


@answers(np.var)
def _var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: Any = False,
    correction: float | None = None,
) -> Tensor:
    options: Any = {"axis": _as_axes(axis), "keepdims": kept(keepdims)}
    return array_api.var(
        _floating(a, dtype), correction=ddof if correction is None else correction, **options
    )


@answers(np.std)
def _std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: Any = False,
    correction: float | None = None,
) -> Tensor:
    options: Any = {"axis": _as_axes(axis), "keepdims": kept(keepdims)}
    return array_api.std(
        _floating(a, dtype), correction=ddof if correction is None else correction, **options
    )


@answers(np.average)
def _average(a: Any, axis: Any = None, weights: Any = None, *, keepdims: Any = False) -> Tensor:
    x = _floating(a, None)
    if weights is None:
        return _mean(x, axis, keepdims=keepdims)
    given = as_tensor(weights)
    if given.shape != x.shape:
        if not isinstance(axis, int) or given.ndim != 1:
            raise TypeError("numpy.average of tensors: weights are of the same shape, or a vector.")
        shape = [1] * x.ndim
        shape[axis] = -1
        given = given.reshape(shape).broadcast_to(x.shape)
    total = _sum(x * given, axis, keepdims=keepdims)
    return total / _sum(given, axis, keepdims=keepdims)


@answers(np.max, np.amax)
def _max(a: Any, axis: Any = None, *, keepdims: Any = False) -> Tensor:
    return array_api.max(as_tensor(a), axis=_as_axes(axis), keepdims=kept(keepdims))


@answers(np.min, np.amin)
def _min(a: Any, axis: Any = None, *, keepdims: Any = False) -> Tensor:
    return array_api.min(as_tensor(a), axis=_as_axes(axis), keepdims=kept(keepdims))


@answers(np.ptp)
def _ptp(a: Any, axis: Any = None, *, keepdims: Any = False) -> Tensor:
    return _max(a, axis, keepdims=keepdims) - _min(a, axis, keepdims=keepdims)


@answers(np.all)
def _all(a: Any, axis: Any = None, *, keepdims: Any = False) -> Tensor:
    return array_api.all(as_tensor(a), axis=_as_axes(axis), keepdims=kept(keepdims))


@answers(np.any)
def _any(a: Any, axis: Any = None, *, keepdims: Any = False) -> Tensor:
    return array_api.any(as_tensor(a), axis=_as_axes(axis), keepdims=kept(keepdims))


@answers(np.count_nonzero)
def _count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Tensor:
    return array_api.count_nonzero(as_tensor(a), axis=_as_axes(axis), keepdims=kept(keepdims))


@answers(np.nansum)
def _nansum(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False) -> Tensor:
    x = as_tensor(a)
    return _sum(torch.where(torch.isnan(x), 0.0, x), axis, dtype, keepdims=keepdims)


@answers(np.nanmean)
def _nanmean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False) -> Tensor:
    x = _floating(a, dtype)
    there = _sum(~torch.isnan(x), axis, keepdims=keepdims)
    return _nansum(x, axis, keepdims=keepdims) / there


@answers(np.nanprod)
def _nanprod(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False) -> Tensor:
    x = as_tensor(a)
    return _prod(torch.where(torch.isnan(x), 1.0, x), axis, dtype, keepdims=keepdims)


def _without_nan(a: Any, axis: Any, *, instead: float, keepdims: Any, most: Any) -> Tensor:
    """An extreme of all that is not NaN; NaN where there is nothing else."""
    x = as_tensor(a)
    found: Tensor = most(torch.where(torch.isnan(x), instead, x), axis, keepdims=keepdims)
    return torch.where(_all(torch.isnan(x), axis, keepdims=keepdims), torch.nan, found)


@answers(np.nanmax)
def _nanmax(a: Any, axis: Any = None, *, keepdims: Any = False) -> Tensor:
    return _without_nan(a, axis, instead=-torch.inf, keepdims=keepdims, most=_max)


@answers(np.nanmin)
def _nanmin(a: Any, axis: Any = None, *, keepdims: Any = False) -> Tensor:
    return _without_nan(a, axis, instead=torch.inf, keepdims=keepdims, most=_min)


@answers(np.nanvar)
def _nanvar(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: Any = False
) -> Tensor:
    x = _floating(a, dtype)
    missing = torch.isnan(x)
    # Without NaN before the product, whose slope would be NaN as well.
    apart = torch.where(missing, 0.0, x) - torch.where(
        missing, 0.0, _nanmean(x, axis, keepdims=True)
    )
    there = _sum(~missing, axis, keepdims=keepdims)
    return _sum((apart * apart.conj()).real, axis, keepdims=keepdims) / (there - ddof)


@answers(np.nanstd)
def _nanstd(
    a: Any, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: Any = False
) -> Tensor:
    return torch.sqrt(_nanvar(a, axis, dtype, ddof=ddof, keepdims=keepdims))


def _running(a: Any, axis: int | None) -> tuple[Tensor, int]:
    x = as_tensor(a)
    return (x.reshape(-1), 0) if axis is None else (x, axis)


@answers(np.cumsum)
def _cumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    x, along = _running(a, axis)
    return array_api.cumulative_sum(x, axis=along, dtype=kind_of(dtype))


@answers(np.cumprod)
def _cumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    x, along = _running(a, axis)
    return array_api.cumulative_prod(x, axis=along, dtype=kind_of(dtype))


@answers(np.nancumsum)
def _nancumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    x = as_tensor(a)
    return _cumsum(torch.where(torch.isnan(x), 0.0, x), axis, dtype)


@answers(np.nancumprod)
def _nancumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    x = as_tensor(a)
    return _cumprod(torch.where(torch.isnan(x), 1.0, x), axis, dtype)


@answers(np.cumulative_sum)
def _cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    options: Any = {"axis": axis, "dtype": kind_of(dtype), "include_initial": include_initial}
    return array_api.cumulative_sum(as_tensor(x), **options)


@answers(np.cumulative_prod)
def _cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    options: Any = {"axis": axis, "dtype": kind_of(dtype), "include_initial": include_initial}
    return array_api.cumulative_prod(as_tensor(x), **options)


@answers(np.diff)
def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    x = as_tensor(a)
    shape = [*x.shape]
    shape[axis] = 1

    def beside(given: Any) -> Tensor | None:
        if given is None or given is np._NoValue:
            return None
        one = as_tensor(given)
        return one.broadcast_to(shape) if one.ndim == 0 else one

    return torch.diff(x, n, axis, beside(prepend), beside(append))


@answers(np.quantile)
def _quantile(
    a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: Any = False
) -> Tensor:
    x = _floating(a, None)
    if isinstance(axis, tuple | list):
        raise TypeError("numpy.quantile of tensors: one axis, or all of them.")
    wanted = as_tensor(q).to(x.dtype)
    options: Any = {"keepdim": kept(keepdims), "interpolation": method}
    found = torch.quantile(x, wanted.reshape(-1), axis, **options)
    return found.reshape(tuple(wanted.shape) + tuple(found.shape[1:]))


@answers(np.percentile)
def _percentile(
    a: Any, q: Any, axis: Any = None, *, method: str = "linear", keepdims: Any = False
) -> Tensor:
    return _quantile(
        a, as_tensor(q).to(torch.float64) / 100, axis, method=method, keepdims=keepdims
    )


@answers(np.median)
def _median(a: Any, axis: Any = None, *, keepdims: Any = False) -> Tensor:
    return _quantile(a, 0.5, axis, keepdims=keepdims)


@answers(np.nanmedian)
def _nanmedian(a: Any, axis: Any = None, *, keepdims: Any = False) -> Tensor:
    if isinstance(axis, tuple | list):
        raise TypeError("numpy.nanmedian of tensors: one axis, or all of them.")
    return torch.nanquantile(_floating(a, None), 0.5, axis, kept(keepdims))


@answers(np.trapezoid)
def _trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    if x is None:
        return torch.trapezoid(as_tensor(y), dx=dx, dim=axis)
    return torch.trapezoid(as_tensor(y), as_tensor(x), dim=axis)


@answers(np.cov)
def _cov(m: Any, *, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Tensor:
    x = _floating(m, None)
    correction = ddof if ddof is not None else 0 if bias else 1
    return torch.cov(x if rowvar or x.ndim < 2 else x.mT, correction=correction)


@answers(np.corrcoef)
def _corrcoef(x: Any, *, rowvar: bool = True) -> Tensor:
    given = _floating(x, None)
    return torch.corrcoef(given if rowvar or given.ndim < 2 else given.mT)
