"""Arrays made from nothing, from Python's numbers or from other arrays, as the standard has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pullback as torch
from pullback import Tensor, dtype

from ._dtypes import NUMBERS, check_array, together

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

Shape = int | tuple[int, ...]


def asarray(
    obj: Any, /, *, dtype: dtype | None = None, device: Any = None, copy: bool | None = None
) -> Tensor:
    """An array of a number, of nested sequences, or of another library's array.

    A tensor, and tensors inside a sequence, keep their history.

    >>> import pullback.array_api as xp
    >>> x = xp.asarray(2.0).requires_grad_()
    >>> xp.asarray([x, x * x]).requires_grad
    True
    """
    if isinstance(obj, Tensor):
        return _of_tensor(obj, dtype, device, copy)
    if isinstance(obj, list | tuple) and holds_tensors(obj):
        if copy is False:
            raise ValueError("asarray: tensors in a sequence cannot be joined without a copy.")
        parts = [_part(one, obj, device) for one in obj]
        return _of_tensor(torch.stack(together("asarray", *parts)), dtype, device, copy=None)
    if copy is False and isinstance(obj, (*NUMBERS, list, tuple)):
        raise ValueError("asarray: Python's numbers need a copy; leave out copy=False.")
    return torch.asarray(obj, dtype=dtype, device=device, copy=copy)


def _of_tensor(x: Tensor, dtype: dtype | None, device: Any, copy: bool | None) -> Tensor:
    changed = (dtype or x.dtype) is not x.dtype or torch.device(device or x.device) != x.device
    if changed and copy is False:
        raise ValueError("asarray: another dtype or device needs a copy; leave out copy=False.")
    return x.to(device=device or x.device, dtype=dtype or x.dtype, copy=bool(copy))


def holds_tensors(nested: Any) -> bool:
    """Whether there is a tensor anywhere in sequences."""
    waiting = [nested]
    while waiting:
        for one in waiting.pop():
            if isinstance(one, Tensor):
                return True
            if isinstance(one, list | tuple):
                waiting.append(one)
    return False


def _part(one: Any, beside: Sequence[Any], device: Any) -> Any:
    """An element of a sequence that holds tensors; numbers wait for the dtype of the tensors."""
    if isinstance(one, NUMBERS) and any(isinstance(other, Tensor) for other in beside):
        return one
    return asarray(one, device=device)


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: dtype | None = None,
    device: Any = None,
) -> Tensor:
    """As `torch.arange`; empty where `stop` lies on the other side of `start`."""
    if stop is None:
        start, stop = 0, start
    if (stop - start) / step < 0:
        stop = start
    return torch.arange(start, stop, step, dtype=dtype, device=device)


def _shape(shape: Shape) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, tuple | list) else (shape,)


def empty(shape: Shape, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """As `torch.empty`."""
    return torch.empty(_shape(shape), dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """As `torch.zeros`."""
    return torch.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape: Shape, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """As `torch.ones`."""
    return torch.ones(_shape(shape), dtype=dtype, device=device)


def full(
    shape: Shape, fill_value: complex, *, dtype: dtype | None = None, device: Any = None
) -> Tensor:
    """As `torch.full`."""
    return torch.full(_shape(shape), fill_value, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """As `torch.empty_like`."""
    return torch.empty_like(x, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """As `torch.zeros_like`."""
    return torch.zeros_like(x, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """As `torch.ones_like`."""
    return torch.ones_like(x, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: complex, *, dtype: dtype | None = None, device: Any = None
) -> Tensor:
    """As `torch.full_like`."""
    return torch.full_like(x, fill_value, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: dtype | None = None,
    device: Any = None,
) -> Tensor:
    """As `torch.eye`, with the ones `k` places above the main diagonal.

    >>> import pullback.array_api as xp
    >>> xp.eye(2, 3, k=1)
    tensor([[0., 1., 0.],
            [0., 0., 1.]])
    """
    columns = n_rows if n_cols is None else n_cols
    if k == 0:
        return torch.eye(n_rows, columns, dtype=dtype, device=device)
    made = torch.zeros((n_rows, columns), dtype=dtype, device=device)
    if -n_rows < k < columns:
        made.diagonal(k).fill_(1)
    return made


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """As `torch.from_dlpack`."""
    return torch.from_dlpack(x, device=device, copy=copy)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """As `torch.linspace`; `endpoint=False` leaves `stop` out.

    >>> import pullback.array_api as xp
    >>> xp.linspace(0, 1, 4, endpoint=False)
    tensor([0.0000, 0.2500, 0.5000, 0.7500])
    """
    if endpoint:
        return torch.linspace(start, stop, num, dtype=dtype, device=device)
    return torch.linspace(start, stop, num + 1, dtype=dtype, device=device)[:-1]


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> tuple[Tensor, ...]:
    """As `torch.meshgrid`, with `indexing="xy"` unless told otherwise."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing must be 'xy' or 'ij', got {indexing!r}.")
    return tuple(torch.meshgrid(*arrays, indexing=indexing)) if arrays else ()


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """As `torch.tril`, with `k` for `diagonal`."""
    check_array("tril", x)
    return torch.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """As `torch.triu`, with `k` for `diagonal`."""
    check_array("triu", x)
    return torch.triu(x, k)
