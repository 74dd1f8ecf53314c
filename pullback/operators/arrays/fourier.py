"""Fourier transforms of arrays: by SciPy for large ones where it is installed, else by NumPy.

SciPy's transforms work on several lines at once: a million complex64 in lines of 1000 take 3.4 ms,
NumPy's 11. On small arrays it is the way to the kernel that counts: NumPy's are ufuncs, which need
4 us where its public functions need 9 for one dimension and 20 to 30 for several.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy

from pullback.core.arrays import Array, Namespace

__all__ = ["complex_to_complex", "half_to_real", "real_to_half"]

# How a sum of n terms is scaled -> the public name for that, forwards and backwards.
_FORWARD = {"none": "backward", "root": "ortho", "n": "forward"}
_INVERSE = {"none": "forward", "root": "ortho", "n": "backward"}
_KERNELS = {
    name: getattr(getattr(numpy.fft, "_pocketfft_umath", None), name, None)
    for name in ("fft", "ifft", "irfft", "rfft_n_even", "rfft_n_odd")
}
_LARGE = 4096  # elements; below, loading SciPy would never pay


@cache
def _scipys() -> Any:
    """SciPy's transforms, or None."""
    try:
        import scipy.fft as transforms
    except ImportError:
        return None
    return transforms


def _library(xp: Namespace, a: Array) -> Any:
    return _scipys() if a.size >= _LARGE and xp is numpy else None


def complex_to_complex(
    xp: Namespace, a: Array, dims: tuple[int, ...], scale: str, *, inverse: bool
) -> Array:
    """The transform over `dims`, of real numbers too."""
    library = _library(xp, a)
    if library is not None:
        if inverse:
            return library.ifftn(a, axes=dims, norm=_INVERSE[scale])
        return library.fftn(a, axes=dims, norm=_FORWARD[scale])
    for dim in reversed(dims):
        a = _along(xp, "ifft" if inverse else "fft", a, dim, a.shape[dim], scale)
    return a


def real_to_half(xp: Namespace, a: Array, dims: tuple[int, ...], scale: str) -> Array:
    """The transform of real numbers; half of the frequencies along the last of `dims`."""
    library = _library(xp, a)
    if library is not None:
        return library.rfftn(a, axes=dims, norm=_FORWARD[scale])
    a = _along(xp, "rfft", a, dims[-1], a.shape[dims[-1]], scale)
    return complex_to_complex(xp, a, dims[:-1], scale, inverse=False) if len(dims) > 1 else a


def half_to_real(xp: Namespace, a: Array, dims: tuple[int, ...], scale: str, size: int) -> Array:
    """The inverse transform of half a spectrum, to `size` points along the last of `dims`."""
    library = _library(xp, a)
    if library is not None:
        sizes = [*(a.shape[dim] for dim in dims[:-1]), size]
        return library.irfftn(a, sizes, dims, _INVERSE[scale])
    if len(dims) > 1:
        a = complex_to_complex(xp, a, dims[:-1], scale, inverse=True)
    return _along(xp, "irfft", a, dims[-1], size, scale)


def _along(xp: Namespace, kind: str, a: Array, dim: int, n: int, scale: str) -> Array:
    """One of NumPy's transforms along one dimension, of `n` points."""
    size, kernel = n, _KERNELS.get(kind)
    if kind == "rfft":
        size, kernel = n // 2 + 1, _KERNELS["rfft_n_odd" if n % 2 else "rfft_n_even"]
    if xp is not numpy or kernel is None:
        name = (_INVERSE if kind.startswith("i") else _FORWARD)[scale]
        return getattr(xp.fft, kind)(a, n, dim, name)
    factor = 1.0 if scale == "none" else 1.0 / n if scale == "n" else 1.0 / math.sqrt(n)
    real = kind == "irfft"
    single = a.dtype.char in "fF"
    dtype = (_SINGLE if single else _DOUBLE)[real]
    shape = a.shape
    out = numpy.empty((*shape[:dim], size, *shape[dim + 1 :]), dtype)
    if dim == len(shape) - 1:
        return kernel(a, factor, out=out)
    return kernel(a, factor, out=out, axes=[(dim,), (), (dim,)])


_SINGLE = {True: numpy.dtype("f"), False: numpy.dtype("F")}
_DOUBLE = {True: numpy.dtype("d"), False: numpy.dtype("D")}
