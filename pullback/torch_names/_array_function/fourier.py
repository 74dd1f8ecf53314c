"""Fourier transforms: NumPy's functions are torch's, with other names for the arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as torch
from pullback import Tensor

from ._table import answers, as_tensor


def _enter_along_one(name: str) -> None:
    transform = getattr(torch.fft, name)

    @answers(getattr(np.fft, name))
    def along_one(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
        result: Tensor = transform(as_tensor(a), n, axis, norm)
        return result


def _enter_along_several(name: str) -> None:
    transform = getattr(torch.fft, name)
    usual = (-2, -1) if name.endswith("2") else None

    @answers(getattr(np.fft, name))
    def along_several(a: Any, s: Any = None, axes: Any = usual, norm: str | None = None) -> Tensor:
        result: Tensor = transform(as_tensor(a), s, axes, norm)
        return result


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _enter_along_one(_name)
for _name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"):
    _enter_along_several(_name)


@answers(np.fft.fftshift)
def _fftshift(x: Any, axes: Any = None) -> Tensor:
    return torch.fft.fftshift(as_tensor(x), axes)


@answers(np.fft.ifftshift)
def _ifftshift(x: Any, axes: Any = None) -> Tensor:
    return torch.fft.ifftshift(as_tensor(x), axes)
