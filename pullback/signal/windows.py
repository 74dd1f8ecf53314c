"""`pullback.signal.windows`: weights by which a stretch of a signal fades in and out.

Each takes the number of points `M`; with `sym=False` the window is periodic, as spectra want it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Unpack

import numpy

from pullback.core.arrays import Array
from pullback.core.dtype import float32, float64
from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.operators.create.factory import Options
from pullback.operators.fourier.windows import cosines, triangle, window
from pullback.operators.fourier.windows import kaiser as _kaiser
from pullback.operators.guarding import guard_all as _guard_all

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]


def _window(
    op: str, M: int, sym: bool, options: Options, values: Callable[[Array, int], Array]
) -> Tensor:
    dtype = options.get("dtype")
    if dtype is not None and dtype not in (float32, float64):
        raise ValueError(
            f"{op}: a window has a floating-point dtype, float32 or float64, got {dtype}."
        )
    return window(op, M, sym, options, values)


def bartlett(M: int, *, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """A triangle from 0 to 1 and back.

    >>> import pullback as torch
    >>> torch.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _window("bartlett", M, sym, options, triangle)


def blackman(M: int, *, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Three terms of cosines.

    >>> import pullback as torch
    >>> torch.signal.windows.blackman(5)[1:4]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return _window("blackman", M, sym, options, cosines((0.42, 0.5, 0.08)))


def cosine(M: int, *, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Half a period of a sine.

    >>> import pullback as torch
    >>> torch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    return _window(
        "cosine", M, sym, options, lambda x, last: numpy.sin(numpy.pi * (x + 0.5) / (last + 1))
    )


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    **options: Unpack[Options],
) -> Tensor:
    """Decay by e in `tau` points, on both sides of `center` (the middle).

    >>> import pullback as torch
    >>> torch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    if tau <= 0:
        raise ValueError(f"exponential: tau must be positive, got {tau}.")
    if sym and center is not None:
        raise ValueError(
            "exponential: center is for sym=False; a symmetric window has it in the middle."
        )

    def values(x: Array, last: int) -> Array:
        middle = last / 2 if center is None else center
        return numpy.exp(-numpy.abs(x - middle) / tau)

    return _window("exponential", M, sym, options, values)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """The density of a normal distribution, 1 in the middle.

    >>> import pullback as torch
    >>> torch.signal.windows.gaussian(3)
    tensor([0.6065, 1.0000, 0.6065])
    """
    if std <= 0:
        raise ValueError(f"gaussian: std must be positive, got {std}.")
    return _window(
        "gaussian", M, sym, options, lambda x, last: numpy.exp(-(((x - last / 2) / std) ** 2) / 2)
    )


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, **options: Unpack[Options]
) -> Tensor:
    """A sum of cosines with coefficients `a`, of alternating sign.

    >>> import pullback as torch
    >>> torch.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    if not isinstance(a, Iterable):
        raise TypeError(f"general_cosine: a must be a sequence of numbers, got {type(a).__name__}.")
    coefficients = list(a)
    if not coefficients:
        raise ValueError("general_cosine: needs at least one coefficient.")
    return _window("general_cosine", M, sym, options, cosines(coefficients))


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, **options: Unpack[Options]
) -> Tensor:
    """A raised cosine: `alpha - (1 - alpha) * cos`.

    >>> import pullback as torch
    >>> torch.signal.windows.general_hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return _window("general_hamming", M, sym, options, cosines((alpha, 1 - alpha)))


def hamming(M: int, *, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """A raised cosine that ends above 0.

    >>> import pullback as torch
    >>> torch.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return _window("hamming", M, sym, options, cosines((0.54, 0.46)))


def hann(M: int, *, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """A raised cosine that ends at 0.

    >>> import pullback as torch
    >>> torch.signal.windows.hann(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _window("hann", M, sym, options, cosines((0.5, 0.5)))


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Bessel functions; `beta` trades the main lobe against the others.

    >>> import pullback as torch
    >>> torch.signal.windows.kaiser(3)
    tensor([5.2773e-05, 1.0000e+00, 5.2773e-05])
    """
    if beta < 0:
        raise ValueError(f"kaiser: beta must not be negative, got {beta}.")
    return _window("kaiser", M, sym, options, _kaiser(beta))


def nuttall(M: int, *, sym: bool = True, **options: Unpack[Options]) -> Tensor:
    """Four terms of cosines with very low side lobes.

    >>> import pullback as torch
    >>> torch.signal.windows.nuttall(3)
    tensor([3.6280e-04, 1.0000e+00, 3.6280e-04])
    """
    weights = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
    return _window("nuttall", M, sym, options, cosines(weights))


_guard_all(globals(), __all__)

__dir__ = _only_public(globals())
