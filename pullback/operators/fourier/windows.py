"""Windows for spectra and filters: what `signal.windows` and `*_window` are made of.

A window of M points is symmetric, or (periodic) the first M points of a symmetric one of M + 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.dtype import NumpyDtype, from_numpy_dtype, get_default_dtype
from pullback.core.tensor import Tensor
from pullback.operators.create.factory import Options, Unpack, checked, made

FOUND_IN = {"torch": "bartlett_window blackman_window hamming_window hann_window kaiser_window"}


def window(
    op: str, M: int, sym: bool, options: Options, values: Callable[[Array, int], Array]
) -> Tensor:
    """A window of `M` points: `values(places, points - 1)`, in double precision before rounding."""
    dtype = checked(op, options, get_default_dtype().numpy)
    _check_floating(op, dtype)
    if M < 0:
        raise ValueError(f"{op}: the number of points must not be negative, got {M}.")
    if M <= 1:
        return made(op, numpy.ones(M, dtype), options)
    last = M - 1 if sym else M
    with numpy.errstate(all="ignore"):
        array = values(numpy.arange(M, dtype=numpy.float64), last)
    return made(op, numpy.asarray(array).astype(dtype), options)


def _check_floating(op: str, dtype: NumpyDtype) -> None:
    if dtype.kind not in "fV":
        raise ValueError(
            f"{op}: a window has a floating-point dtype, got {from_numpy_dtype(dtype)}; use "
            "float32 or float64."
        )


def cosines(coefficients: Iterable[float]) -> Callable[[Array, int], Array]:
    """Sums of cosines with alternating signs: Hann, Hamming, Blackman, Nuttall."""
    weights = [(-1) ** i * a for i, a in enumerate(coefficients)]

    def values(places: Array, last: int) -> Array:
        angle = 2 * numpy.pi * places / last
        total = numpy.zeros(places.shape)
        for order, weight in enumerate(weights):
            total += weight * numpy.cos(order * angle)
        return total

    return values


def triangle(places: Array, last: int) -> Array:
    """From 0 up to 1 in the middle, and down."""
    return 1 - numpy.abs(2 * places / last - 1)


def kaiser(beta: float) -> Callable[[Array, int], Array]:
    """The window of Bessel functions; `beta` trades the main lobe against the others."""

    def values(places: Array, last: int) -> Array:
        inside = 1 - (2 * places / last - 1) ** 2
        return numpy.i0(beta * numpy.sqrt(numpy.maximum(inside, 0))) / numpy.i0(beta)

    return values


# Under torch's older names ------------------------------------------------------------------------


def _older(
    op: str, count: int, periodic: Any, options: Options, values: Callable[[Array, int], Array]
) -> Tensor:
    dtype = checked(op, options, get_default_dtype().numpy)
    if dtype.kind not in "fV":
        raise RuntimeError(
            f"{op}: a window has a floating-point dtype, got {from_numpy_dtype(dtype)}."
        )
    if count < 0:
        raise RuntimeError(f"{op}: window_length must not be negative, got {count}.")
    return window(op, count, not periodic, options, values)


def bartlett_window(
    window_length: int, periodic: bool = True, **options: Unpack[Options]
) -> Tensor:
    """A triangle.

    >>> import pullback as torch
    >>> torch.bartlett_window(5, periodic=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    return _older("bartlett_window", window_length, periodic, options, triangle)


def blackman_window(
    window_length: int, periodic: bool = True, **options: Unpack[Options]
) -> Tensor:
    """Three terms of cosines.

    >>> import pullback as torch
    >>> torch.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """
    values = cosines((0.42, 0.5, 0.08))
    return _older("blackman_window", window_length, periodic, options, values)


def hann_window(window_length: int, periodic: bool = True, **options: Unpack[Options]) -> Tensor:
    """A raised cosine.

    >>> import pullback as torch
    >>> torch.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _older("hann_window", window_length, periodic, options, cosines((0.5, 0.5)))


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    **options: Unpack[Options],
) -> Tensor:
    """A cosine raised above 0: `alpha - beta * cos`.

    >>> import pullback as torch
    >>> torch.hamming_window(5, periodic=False)
    tensor([0.0800, 0.5400, 1.0000, 0.5400, 0.0800])
    """
    return _older("hamming_window", window_length, periodic, options, cosines((alpha, beta)))


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, **options: Unpack[Options]
) -> Tensor:
    """Bessel functions; `beta` trades the main lobe against the others.

    >>> import pullback as torch
    >>> torch.kaiser_window(5, periodic=False)
    tensor([5.2773e-05, 2.1567e-01, 1.0000e+00, 2.1567e-01, 5.2773e-05])
    """
    return _older("kaiser_window", window_length, periodic, options, kaiser(beta))
