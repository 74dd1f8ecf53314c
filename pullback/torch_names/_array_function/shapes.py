"""Shapes and orders changed, and arrays like others."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as torch
from pullback import Tensor, array_api

from ._table import answers, as_tensor, kind_of


@answers(np.shape)
def _shape(a: Any) -> tuple[int, ...]:
    return tuple(as_tensor(a).shape)


@answers(np.ndim)
def _ndim(a: Any) -> int:
    return as_tensor(a).ndim


@answers(np.size)
def _size(a: Any, axis: int | None = None) -> int:
    x = as_tensor(a)
    return x.numel() if axis is None else x.shape[axis]


@answers(np.reshape)
def _reshape(a: Any, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    return array_api.reshape(as_tensor(a), wanted, copy=copy)


@answers(np.ravel)
def _ravel(a: Any) -> Tensor:
    return torch.ravel(as_tensor(a))


@answers(np.transpose)
def _transpose(a: Any, axes: Any = None) -> Tensor:
    x = as_tensor(a)
    return torch.permute(x, tuple(reversed(range(x.ndim))) if axes is None else tuple(axes))


@answers(np.matrix_transpose, np.linalg.matrix_transpose)
def _matrix_transpose(x: Any, /) -> Tensor:
    return array_api.matrix_transpose(as_tensor(x))


@answers(np.swapaxes)
def _swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    return torch.transpose(as_tensor(a), axis1, axis2)


@answers(np.moveaxis)
def _moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    return torch.moveaxis(as_tensor(a), source, destination)


@answers(np.expand_dims)
def _expand_dims(a: Any, axis: Any) -> Tensor:
    return array_api.expand_dims(as_tensor(a), axis=axis if isinstance(axis, int) else tuple(axis))


@answers(np.squeeze)
def _squeeze(a: Any, axis: Any = None) -> Tensor:
    x = as_tensor(a)
    if axis is None:
        return torch.squeeze(x)
    return array_api.squeeze(x, axis if isinstance(axis, int) else tuple(axis))


@answers(np.broadcast_to)
def _broadcast_to(array: Any, shape: Any) -> Tensor:
    return torch.broadcast_to(as_tensor(array), (shape,) if isinstance(shape, int) else shape)


@answers(np.flip)
def _flip(m: Any, axis: Any = None) -> Tensor:
    return array_api.flip(as_tensor(m), axis=axis)


@answers(np.fliplr)
def _fliplr(m: Any) -> Tensor:
    return torch.fliplr(as_tensor(m))


@answers(np.flipud)
def _flipud(m: Any) -> Tensor:
    return torch.flipud(as_tensor(m))


@answers(np.rot90)
def _rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    return torch.rot90(as_tensor(m), k, tuple(axes))


@answers(np.roll)
def _roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    return array_api.roll(as_tensor(a), shift, axis=axis)


@answers(np.tril)
def _tril(m: Any, k: int = 0) -> Tensor:
    return torch.tril(as_tensor(m), k)


@answers(np.triu)
def _triu(m: Any, k: int = 0) -> Tensor:
    return torch.triu(as_tensor(m), k)


@answers(np.diag)
def _diag(v: Any, k: int = 0) -> Tensor:
    return torch.diag(as_tensor(v), k)


@answers(np.diagflat)
def _diagflat(v: Any, k: int = 0) -> Tensor:
    return torch.diagflat(as_tensor(v), k)


@answers(np.diagonal)
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return torch.diagonal(as_tensor(a), offset, axis1, axis2)


@answers(np.linalg.diagonal)
def _diagonal_of_matrices(x: Any, /, *, offset: int = 0) -> Tensor:
    return torch.diagonal(as_tensor(x), offset, -2, -1)


@answers(np.copy)
def _copy(a: Any) -> Tensor:
    return as_tensor(a).clone()


@answers(np.astype)
def _astype(x: Any, dtype: Any, /, *, copy: bool = True) -> Tensor:
    return as_tensor(x).to(kind_of(dtype), copy=copy)


@answers(np.zeros_like)
def _zeros_like(a: Any, dtype: Any = None) -> Tensor:
    return torch.zeros_like(as_tensor(a), dtype=kind_of(dtype))


@answers(np.ones_like)
def _ones_like(a: Any, dtype: Any = None) -> Tensor:
    return torch.ones_like(as_tensor(a), dtype=kind_of(dtype))


@answers(np.empty_like)
def _empty_like(prototype: Any, dtype: Any = None) -> Tensor:
    return torch.empty_like(as_tensor(prototype), dtype=kind_of(dtype))


@answers(np.full_like)
def _full_like(a: Any, fill_value: Any, dtype: Any = None) -> Tensor:
    x = as_tensor(a)
    return as_tensor(fill_value).to(kind_of(dtype) or x.dtype).broadcast_to(x.shape).clone()
