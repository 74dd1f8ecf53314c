"""The standard's extension of Fourier transforms: `xp.fft`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pullback as torch
from pullback import Tensor, dtype
from pullback.core.listing import only_public as _only_public

from ._dtypes import check_array

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Axes = int | Sequence[int] | None


def _along_one(name: str) -> Callable[..., Tensor]:
    operator = getattr(torch.fft, name)

    def function(
        x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Tensor:
        check_array(name, x)
        result: Tensor = operator(x, n, axis, norm)
        return result

    return _named(function, name)


def _along_several(name: str) -> Callable[..., Tensor]:
    operator = getattr(torch.fft, name)

    def function(
        x: Tensor,
        /,
        *,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str = "backward",
    ) -> Tensor:
        check_array(name, x)
        result: Tensor = operator(x, s, axes, norm)
        return result

    return _named(function, name)


def _named(function: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"As `torch.fft.{name}`, with the arguments of the standard."
    return function


fft, ifft, rfft = _along_one("fft"), _along_one("ifft"), _along_one("rfft")
irfft, hfft, ihfft = _along_one("irfft"), _along_one("hfft"), _along_one("ihfft")
fftn, ifftn = _along_several("fftn"), _along_several("ifftn")
rfftn, irfftn = _along_several("rfftn"), _along_several("irfftn")


def fftfreq(n: int, /, *, d: float = 1.0, dtype: dtype | None = None, device: Any = None) -> Tensor:
    """As `torch.fft.fftfreq`."""
    return torch.fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(
    n: int, /, *, d: float = 1.0, dtype: dtype | None = None, device: Any = None
) -> Tensor:
    """As `torch.fft.rfftfreq`."""
    return torch.fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: Axes = None) -> Tensor:
    """As `torch.fft.fftshift`."""
    check_array("fftshift", x)
    return torch.fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: Axes = None) -> Tensor:
    """As `torch.fft.ifftshift`."""
    check_array("ifftshift", x)
    return torch.fft.ifftshift(x, axes)


__dir__ = _only_public(globals())
