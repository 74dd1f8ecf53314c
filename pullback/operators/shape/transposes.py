"""`x.T`, `x.mT`, `x.H`, `x.mH` and `adjoint`: transposes by attribute."""

from __future__ import annotations

import warnings
from typing import Any

from pullback.core.origin import stacklevel
from pullback.operators.adapter import Adapter, adapted
from pullback.operators.declare import method
from pullback.operators.deferred.views import conj
from pullback.operators.shape.views import _permute, transpose

FOUND_IN = {"torch": "adjoint"}


def _reversed(input: Any) -> Any:
    """`x.T`: the dimensions in reverse order."""
    ndim = input._array.ndim
    if ndim and ndim != 2:
        warnings.warn(
            f"x.T on a tensor of {ndim} dimensions reverses them all; say x.mT for a batch of "
            "matrices, or x.permute(...) for this.",
            UserWarning,
            stacklevel=stacklevel(),
        )
    return _permute(input, tuple(reversed(range(ndim))))


# Of a matrix `_permute` itself, a call less: 0.55 us, not 0.72.
_OF_A_MATRIX = Adapter(
    "$input",
    ["if $input._array.ndim != 2:", "    return otherwise($input)", "$dims = (1, 0)"],
    is_normal=True,
    inline="a0.T",
)
reverse_dims = adapted(_permute, _OF_A_MATRIX, _reversed)


def matrix_transpose(input: Any) -> Any:
    """`x.mT`: the last two dimensions exchanged."""
    ndim = input._array.ndim
    if ndim < 2 and ndim:
        raise RuntimeError(f"mT needs at least 2 dimensions, got shape {tuple(input.shape)}.")
    return transpose(input, -2, -1) if ndim else input


def conj_transpose(input: Any) -> Any:
    """`x.mH`: the last two dimensions exchanged, and conjugated."""
    if input.ndim < 2 and input.ndim != 0:
        raise RuntimeError(f"mH needs at least 2 dimensions, got shape {tuple(input.shape)}.")
    return conj(transpose(input, -2, -1) if input.ndim else input)


def hermitian(input: Any) -> Any:
    """`x.H`: the conjugate transpose of a matrix."""
    if input.ndim > 2:
        raise RuntimeError(
            f"H is for matrices, got shape {tuple(input.shape)}; use mH for a batch of them."
        )
    return conj_transpose(input)


@method
def adjoint(input: Any) -> Any:
    """The conjugate transpose of the last two dimensions.

    >>> import pullback as torch
    >>> torch.adjoint(torch.tensor([[1 + 1j, 2], [3, 4]]))
    tensor([[1.-1.j, 3.-0.j],
            [2.-0.j, 4.-0.j]])
    """
    return conj_transpose(input)
