"""Choosing, sorting and searching elements, and functions of each element that are no ufuncs."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as torch
from pullback import Tensor, array_api

from ._table import answers, as_tensor, kept


def _operands(*given: Any) -> list[Any]:
    """Python's numbers as they are, all else as tensors."""
    return [one if isinstance(one, int | float | complex) else as_tensor(one) for one in given]


@answers(np.where)
def _where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    asked = as_tensor(condition)
    if x is None and y is None:
        return tuple(torch.nonzero(asked, as_tuple=True))
    asked = asked if asked.dtype is torch.bool else asked != 0
    return torch.where(asked, *_operands(x, y))


@answers(np.clip)
def _clip(
    a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None
) -> Tensor:
    low = a_min if a_min is not None and a_min is not np._NoValue else min
    high = a_max if a_max is not None and a_max is not np._NoValue else max
    bounds = [None if one is None or one is np._NoValue else one for one in (low, high)]
    x = as_tensor(a)
    if bounds == [None, None]:
        return x.clone()
    return array_api.clip(x, *(None if one is None else _operands(one)[0] for one in bounds))


@answers(np.round, np.around)
def _round(a: Any, decimals: int = 0) -> Tensor:
    return torch.round(as_tensor(a), decimals=decimals)


@answers(np.fix)
def _fix(x: Any) -> Tensor:
    return torch.trunc(as_tensor(x))


@answers(np.real)
def _real(val: Any) -> Tensor:
    return torch.real(as_tensor(val))


@answers(np.imag)
def _imag(val: Any) -> Tensor:
    return array_api.imag(as_tensor(val))


@answers(np.angle)
def _angle(z: Any, deg: bool = False) -> Tensor:
    found = torch.angle(as_tensor(z))
    return torch.rad2deg(found) if deg else found


@answers(np.sinc)
def _sinc(x: Any) -> Tensor:
    return torch.sinc(as_tensor(x))


@answers(np.i0)
def _i0(x: Any) -> Tensor:
    return torch.i0(as_tensor(x))


@answers(np.nan_to_num)
def _nan_to_num(x: Any, *, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    return torch.nan_to_num(as_tensor(x), nan, posinf, neginf)


@answers(np.isclose)
def _isclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    one, other = array_api._dtypes.together("isclose", as_tensor(a), as_tensor(b))
    return torch.isclose(one, other, rtol, atol, equal_nan)


@answers(np.allclose)
def _allclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    return bool(torch.all(_isclose(a, b, rtol, atol, equal_nan)))


@answers(np.array_equal)
def _array_equal(a1: Any, a2: Any) -> bool:
    one, other = as_tensor(a1), as_tensor(a2)
    return one.shape == other.shape and bool(torch.all(one == other))


@answers(np.take)
def _take(a: Any, indices: Any, axis: int | None = None) -> Tensor:
    x, along = (as_tensor(a).reshape(-1), 0) if axis is None else (as_tensor(a), axis)
    places = as_tensor(indices)
    found = array_api.take(x, places.reshape(-1), axis=along)
    along %= x.ndim
    return found.reshape(tuple(x.shape[:along] + places.shape + x.shape[along + 1 :]))


@answers(np.take_along_axis)
def _take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Tensor:
    x, along = (as_tensor(arr).reshape(-1), 0) if axis is None else (as_tensor(arr), axis)
    return array_api.take_along_axis(x, as_tensor(indices), axis=along)


@answers(np.compress)
def _compress(condition: Any, a: Any, axis: int | None = None) -> Tensor:
    (places,) = torch.nonzero(as_tensor(condition) != 0, as_tuple=True)
    return _take(a, places, axis)


@answers(np.sort)
def _sort(a: Any, axis: int | None = -1, *, kind: Any = None, stable: Any = None) -> Tensor:
    x, along = (as_tensor(a).reshape(-1), 0) if axis is None else (as_tensor(a), axis)
    return array_api.sort(x, axis=along)


@answers(np.argsort)
def _argsort(a: Any, axis: int | None = -1, *, kind: Any = None, stable: Any = None) -> Tensor:
    x, along = (as_tensor(a).reshape(-1), 0) if axis is None else (as_tensor(a), axis)
    return array_api.argsort(x, axis=along)


@answers(np.argmax)
def _argmax(a: Any, axis: int | None = None, *, keepdims: Any = False) -> Tensor:
    return array_api.argmax(as_tensor(a), axis=axis, keepdims=kept(keepdims))


@answers(np.argmin)
def _argmin(a: Any, axis: int | None = None, *, keepdims: Any = False) -> Tensor:
    return array_api.argmin(as_tensor(a), axis=axis, keepdims=kept(keepdims))


@answers(np.nonzero)
def _nonzero(a: Any) -> tuple[Tensor, ...]:
    return array_api.nonzero(as_tensor(a))


@answers(np.flatnonzero)
def _flatnonzero(a: Any) -> Tensor:
    return array_api.nonzero(as_tensor(a).reshape(-1))[0]


@answers(np.argwhere)
def _argwhere(a: Any) -> Tensor:
    return torch.argwhere(as_tensor(a))


@answers(np.searchsorted)
def _searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Tensor:
    order = None if sorter is None else as_tensor(sorter)
    return array_api.searchsorted(as_tensor(a), as_tensor(v), side=side, sorter=order)


@answers(np.unique_values)
def _unique_values(x: Any) -> Tensor:
    return array_api.unique_values(as_tensor(x))
