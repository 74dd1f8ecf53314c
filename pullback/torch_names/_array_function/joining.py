"""Joining, splitting, repeating and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import pullback as torch
from pullback import Tensor, array_api

from ._table import answers, as_tensor, kind_of

Tensors = tuple[Tensor, ...] | list[Tensor]


def _joined(arrays: Any, dtype: Any = None) -> list[Tensor]:
    """What is to be joined, as tensors of one dtype."""
    parts = [as_tensor(one) for one in arrays]
    wanted = kind_of(dtype) or array_api.result_type(*parts)
    return [one.to(wanted) for one in parts]


@answers(np.concatenate)
def _concatenate(arrays: Any, axis: int | None = 0, *, dtype: Any = None) -> Tensor:
    parts = _joined(arrays, dtype)
    return torch.cat([x.reshape(-1) for x in parts]) if axis is None else torch.cat(parts, axis)


@answers(np.stack)
def _stack(arrays: Any, axis: int = 0, *, dtype: Any = None) -> Tensor:
    return torch.stack(_joined(arrays, dtype), axis)


@answers(np.vstack)
def _vstack(tup: Any, *, dtype: Any = None) -> Tensor:
    return torch.vstack(_joined(tup, dtype))


@answers(np.hstack)
def _hstack(tup: Any, *, dtype: Any = None) -> Tensor:
    return torch.hstack(_joined(tup, dtype))


@answers(np.dstack)
def _dstack(tup: Any) -> Tensor:
    return torch.dstack(_joined(tup))


@answers(np.column_stack)
def _column_stack(tup: Any) -> Tensor:
    return torch.column_stack(_joined(tup))


@answers(np.append)
def _append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    return _concatenate([arr, values], axis)


@answers(np.split, np.array_split)
def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Tensors:
    return list(torch.tensor_split(as_tensor(ary), _sections(indices_or_sections), axis))


def _sections(given: Any) -> Any:
    return given if isinstance(given, int) else tuple(int(one) for one in given)


@answers(np.hsplit)
def _hsplit(ary: Any, indices_or_sections: Any) -> Tensors:
    return list(torch.hsplit(as_tensor(ary), _sections(indices_or_sections)))


@answers(np.vsplit)
def _vsplit(ary: Any, indices_or_sections: Any) -> Tensors:
    return list(torch.vsplit(as_tensor(ary), _sections(indices_or_sections)))


@answers(np.dsplit)
def _dsplit(ary: Any, indices_or_sections: Any) -> Tensors:
    return list(torch.dsplit(as_tensor(ary), _sections(indices_or_sections)))


@answers(np.unstack)
def _unstack(x: Any, /, *, axis: int = 0) -> Tensors:
    return tuple(torch.unbind(as_tensor(x), axis))


@answers(np.tile)
def _tile(A: Any, reps: Any) -> Tensor:  # noqa: N803 (NumPy's name)
    return torch.tile(as_tensor(A), (reps,) if isinstance(reps, int) else tuple(reps))


@answers(np.repeat)
def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Tensor:
    times = repeats if isinstance(repeats, int) else as_tensor(repeats)
    return array_api.repeat(as_tensor(a), times, axis=axis)


@answers(np.pad)
def _pad(array: Any, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Tensor:
    x = as_tensor(array)
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    if mode == "constant":
        flat = [int(n) for pair in reversed(widths) for n in pair]
        return torch.nn.functional.pad(x, flat, value=constant_values)
    # Any other way is a choice of places along each axis, by what NumPy does with their numbers.
    for axis, width in enumerate(widths):
        places = np.pad(np.arange(x.shape[axis]), width, mode=_places(mode))
        x = torch.index_select(x, axis, torch.as_tensor(places, device=x.device))
    return x


def _places(mode: str) -> Any:
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise TypeError(
            f"numpy.pad: mode {mode!r} is not among those that work on tensors with gradients: "
            "constant, edge, reflect, symmetric, wrap."
        )
    return mode


@answers(np.meshgrid)
def _meshgrid(*xi: Any, indexing: str = "xy") -> Tensors:
    return array_api.meshgrid(*map(as_tensor, xi), indexing=indexing)


@answers(np.broadcast_arrays)
def _broadcast_arrays(*args: Any) -> Tensors:
    return tuple(torch.broadcast_tensors(*map(as_tensor, args)))


@answers(np.atleast_1d)
def _atleast_1d(*arys: Any) -> Any:
    return _each(torch.atleast_1d, arys)


@answers(np.atleast_2d)
def _atleast_2d(*arys: Any) -> Any:
    return _each(torch.atleast_2d, arys)


@answers(np.atleast_3d)
def _atleast_3d(*arys: Any) -> Any:
    return _each(torch.atleast_3d, arys)


def _each(function: Any, arrays: Sequence[Any]) -> Any:
    found = tuple(function(as_tensor(one)) for one in arrays)
    return found[0] if len(found) == 1 else found
