"""`pullback.fft`: Fourier transforms under torch's names, and their frequencies."""

from __future__ import annotations

from typing import Any, Unpack

import numpy

from pullback.core.dtype import get_default_dtype
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.operators.attach import faces as _faces
from pullback.operators.attach import names as _names
from pullback.operators.create.factory import Options, allocated, checked, made
from pullback.operators.dispatch import asking as _asking

__all__ = sorted([*_faces.fill(globals(), _names.FACES["fft"]), "fftfreq", "rfftfreq"])


def fftfreq(n: int, d: float = 1.0, *, out: Any = None, **options: Unpack[Options]) -> Tensor:
    """The frequencies of `fft` over `n` points `d` apart: rising from 0, then negative.

    >>> import pullback as torch
    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    dtype = checked("fft.fftfreq", options, get_default_dtype().numpy, out)
    _check_count("fft.fftfreq", n)
    with numpy.errstate(divide="ignore", invalid="ignore"):  # of points at one place
        array = allocated("fft.fftfreq", numpy.fft.fftfreq, n, numpy.float64(float(d)))
    array = array.astype(dtype)
    return made("fft.fftfreq", array, options, out)


def rfftfreq(n: int, d: float = 1.0, *, out: Any = None, **options: Unpack[Options]) -> Tensor:
    """The frequencies of `rfft` over `n` points `d` apart.

    >>> import pullback as torch
    >>> torch.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    dtype = checked("fft.rfftfreq", options, get_default_dtype().numpy, out)
    _check_count("fft.rfftfreq", n)
    with numpy.errstate(divide="ignore", invalid="ignore"):
        array = allocated("fft.rfftfreq", numpy.fft.rfftfreq, n, numpy.float64(float(d)))
    array = array.astype(dtype)
    return made("fft.rfftfreq", array, options, out)


def _check_count(op: str, n: int) -> None:
    if n < 1:
        raise RuntimeError(f"{op}: needs at least 1 point, got {n}.")


_asking.public(globals(), __all__)

__dir__ = _only_public(globals())
