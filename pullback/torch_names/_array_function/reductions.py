"""Sums, means, extremes and other reductions, and running ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pullback as torch
from pullback import Tensor, array_api

from ._table import answers, as_tensor, kept, kind_of

_Reduction = Callable[..., Tensor]


def _as_axes(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


def _of_sums(reduce: _Reduction) -> _Reduction:
    def reduced(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False) -> Tensor:
        options: Any = {"axis": _as_axes(axis), "dtype": kind_of(dtype), "keepdims": kept(keepdims)}
        return reduce(as_tensor(a), **options)

    return reduced


_sum = answers(np.sum)(_of_sums(array_api.sum))
_prod = answers(np.prod)(_of_sums(array_api.prod))


def _floating(a: Any, dtype: Any) -> Tensor:
    """What a mean is taken of: integers as floats."""
    x = as_tensor(a)
    if dtype is not None:
        return x.to(kind_of(dtype))
    return x if x.is_floating_point() or x.is_complex() else x.to(torch.float64)


@answers(np.mean)
def _mean(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: Any = False) -> Tensor:
    return array_api.mean(_floating(a, dtype), axis=_as_axes(axis), keepdims=kept(keepdims))


def _of_spreads(reduce: _Reduction) -> _Reduction:
    def reduced(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        *,
        ddof: float = 0,
        keepdims: Any = False,
        correction: float | None = None,
    ) -> Tensor:
        lost = ddof if correction is None else correction
        options: Any = {"axis": _as_axes(axis), "keepdims": kept(keepdims), "correction": lost}
        return reduce(_floating(a, dtype), **options)

    return reduced


answers(np.var)(_of_spreads(array_api.var))
answers(np.std)(_of_spreads(array_api.std))


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


def _of_elements(reduce: _Reduction) -> _Reduction:
    def reduced(a: Any, axis: Any = None, *, keepdims: Any = False) -> Tensor:
        return reduce(as_tensor(a), axis=_as_axes(axis), keepdims=kept(keepdims))

    return reduced


_max = answers(np.max, np.amax)(_of_elements(array_api.max))
_min = answers(np.min, np.amin)(_of_elements(array_api.min))
_all = answers(np.all)(_of_elements(array_api.all))
answers(np.any)(_of_elements(array_api.any))
answers(np.count_nonzero)(_of_elements(array_api.count_nonzero))


@answers(np.ptp)
def _ptp(a: Any, axis: Any = None, *, keepdims: Any = False) -> Tensor:
    return _max(a, axis, keepdims=keepdims) - _min(a, axis, keepdims=keepdims)


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


def _running(total: _Reduction) -> _Reduction:
    def reduced(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
        x = as_tensor(a)
        x, along = (x.reshape(-1), 0) if axis is None else (x, axis)
        return total(x, axis=along, dtype=kind_of(dtype))

    return reduced


_cumsum = answers(np.cumsum)(_running(array_api.cumulative_sum))
_cumprod = answers(np.cumprod)(_running(array_api.cumulative_prod))


@answers(np.nancumsum)
def _nancumsum(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    x = as_tensor(a)
    return _cumsum(torch.where(torch.isnan(x), 0.0, x), axis, dtype)


@answers(np.nancumprod)
def _nancumprod(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    x = as_tensor(a)
    return _cumprod(torch.where(torch.isnan(x), 1.0, x), axis, dtype)


def _cumulative(total: _Reduction) -> _Reduction:
    def reduced(
        x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
    ) -> Tensor:
        options: Any = {"axis": axis, "dtype": kind_of(dtype), "include_initial": include_initial}
        return total(as_tensor(x), **options)

    return reduced


answers(np.cumulative_sum)(_cumulative(array_api.cumulative_sum))
answers(np.cumulative_prod)(_cumulative(array_api.cumulative_prod))


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
