"""Products of matrices and vectors, which the standard has at the top and in `linalg`."""

from __future__ import annotations

from collections.abc import Sequence

import pullback as torch
from pullback import Tensor

from ._dtypes import check_array, together

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """As `torch.matmul`."""
    return torch.matmul(*together("matmul", x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The last two axes swapped.

    >>> import pullback.array_api as xp
    >>> xp.matrix_transpose(xp.ones((2, 3))).shape
    torch.Size([3, 2])
    """
    check_array("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: needs 2 dimensions or more, got {x.ndim}.")
    return torch.transpose(x, -2, -1)


def tensordot(
    x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """As `torch.tensordot`."""
    a, b = together("tensordot", x1, x2)
    return torch.tensordot(a, b, dims=axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """As `torch.linalg.vecdot`: the sum of `conj(x1) * x2` over an axis."""
    a, b = together("vecdot", x1, x2)
    if not a.is_floating_point() and not a.is_complex():
        return torch.sum(a * b, axis, dtype=a.dtype)
    return torch.linalg.vecdot(a, b, dim=axis)
