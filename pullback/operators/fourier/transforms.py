"""Fourier transforms, all of them by three operators.

Complex to complex, real to the half of a complex spectrum that says everything, and back: each is
the adjoint of another up to a factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from pullback.core.dtype import from_numpy_dtype
from pullback.core.promotion import promote_to_float
from pullback.operators.arrays.fourier import complex_to_complex, half_to_real, real_to_half
from pullback.operators.declare import Array, Dims, Namespace, linear
from pullback.operators.indexing.gather import enlarged
from pullback.operators.linalg.products import delivered
from pullback.operators.options import as_dim, as_dims, check_int_if_given, numpy_spelled
from pullback.operators.pointwise.arithmetic import conj, is_complex
from pullback.operators.shape.tiling import roll
from pullback.operators.tensor.convert import astype

FOUND_IN = {
    "fft": """
        fft fft2 fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2
        ihfftn irfft irfft2 irfftn rfft rfft2 rfftn
    """
}


@linear(
    input=lambda g, dims, scale, inverse: _c2c(g, dims, scale, not inverse),
    node="FftC2CBackward0",
    has_out=False,
)
def _c2c(xp: Namespace, input: Array, dims: Dims, scale: str, inverse: bool) -> Array:
    """Takes real numbers as well: their gradient is the real part of what comes back."""
    return complex_to_complex(xp, input, dims, scale, inverse=inverse)


def _weigh(xp: Namespace, half: Array, dim: int, size: int, weight: float) -> Array:
    """Scale the frequencies of a half spectrum that stand for two."""
    twice = slice(1, (size + 1) // 2)
    half = xp.array(half)
    half[(slice(None),) * dim + (twice,)] *= weight
    return half


@linear(
    input=lambda g, dims, scale, input_shape: _r2c_adjoint(g, dims, scale, input_shape[dims[-1]]),
    node="FftR2CBackward0",
    has_out=False,
)
def _r2c(xp: Namespace, input: Array, dims: Dims, scale: str) -> Array:
    return real_to_half(xp, input, dims, scale)


@linear(input=lambda g, dims, scale: _r2c(g, dims, scale), has_out=False)
def _r2c_adjoint(xp: Namespace, input: Array, dims: Dims, scale: str, size: int) -> Array:
    half = _weigh(xp, input, dims[-1], size, 0.5)
    return half_to_real(xp, half, dims, scale, size)


@linear(
    input=lambda g, dims, scale, size: _c2r_adjoint(g, dims, scale, size),
    node="FftC2RBackward0",
    has_out=False,
)
def _c2r(xp: Namespace, input: Array, dims: Dims, scale: str, size: int) -> Array:
    return half_to_real(xp, input, dims, scale, size)


@linear(input=lambda g, dims, scale, size: _c2r(g, dims, scale, size), has_out=False)
def _c2r_adjoint(xp: Namespace, input: Array, dims: Dims, scale: str, size: int) -> Array:
    half = real_to_half(xp, input, dims, scale)
    return _weigh(xp, half, dims[-1], size, 2)


# Arguments ----------------------------------------------------------------------------------------


def _scale(op: str, norm: str | None, *, inverse: bool) -> str:
    if norm == "ortho":
        return "root"
    if norm not in (None, "backward", "forward"):
        raise RuntimeError(f"{op}: norm must be 'backward', 'ortho' or 'forward', got {norm!r}.")
    return "n" if (norm == "forward") != inverse else "none"


def _floating(op: str, input: Any) -> Any:
    """`input` as floats or complex numbers, of at least single precision."""
    dtype = input._array.dtype
    if dtype.char in "fdFD":
        return input
    if dtype.kind in "fV" and dtype.itemsize == 2:
        raise RuntimeError(
            f"{op}: not defined for {from_numpy_dtype(dtype)}; convert to float32 first."
        )
    return astype(input, promote_to_float(dtype))


def _complex(op: str, input: Any) -> Any:
    input = _floating(op, input)
    if is_complex(input):
        return input
    return astype(input, numpy.dtype("F" if input._array.dtype.char == "f" else "D"))


def _real(op: str, input: Any) -> Any:
    if is_complex(input):
        raise RuntimeError(
            f"{op}: needs a real tensor, got {input.dtype}; use the transform of complex numbers."
        )
    return _floating(op, input)


def _line(op: str, input: Any, dim: int) -> int:
    ndim = input._array.ndim
    if ndim == 0:
        raise IndexError(f"{op}: dim {dim} does not exist in a tensor of no dimensions.")
    return ndim - 1 if dim.__class__ is int and dim == -1 else as_dim(dim, ndim, op)


def _size_along(op: str, input: Any, dim: int, n: int | None) -> Any:
    check_int_if_given(n, op, "n")
    return input._array.shape[dim] if n is None else n


def _sizes(op: str, input: Any, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int]]:
    """The dimensions to transform, and their sizes after padding or cutting."""
    sizes = None if s is None else ([s] if isinstance(s, int) else list(s))
    if dim is None:
        count = input.ndim if sizes is None else len(sizes)
        if count > input.ndim:
            raise RuntimeError(
                f"{op}: {count} sizes in s, but the tensor has {input.ndim} dimensions."
            )
        dims = tuple(range(input.ndim - count, input.ndim))
    else:
        dims = as_dims(dim, input.ndim, op) or ()
    if sizes is None:
        return dims, [input.shape[d] for d in dims]
    if len(sizes) != len(dims):
        raise RuntimeError(f"{op}: s and dim must be equally long, got {sizes} and {dim}.")
    return dims, [input.shape[d] if n == -1 else n for d, n in zip(dims, sizes, strict=True)]


def _fitted(op: str, input: Any, dims: Sequence[int], sizes: Sequence[int]) -> Any:
    """Cut, or padded with zeros, to `sizes` along `dims`."""
    given = input._array.shape
    if [given[dim] for dim in dims] == [*sizes] and 0 not in sizes:
        return input
    cut = [slice(None)] * input.ndim
    shape = list(input.shape)
    for dim, size in zip(dims, sizes, strict=True):
        if size < 1:
            raise RuntimeError(
                f"{op}: there must be at least one point along dimension {dim}, got {size}."
            )
        if shape[dim] > size:
            cut[dim] = slice(size)
        shape[dim] = size
    if any(piece != slice(None) for piece in cut):
        input = input[tuple(cut)]
    return enlarged(input, tuple(shape))


# One dimension ------------------------------------------------------------------------------------


@numpy_spelled
def fft(
    input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
) -> Any:
    """The discrete Fourier transform along `dim`, of `n` points (cut, or padded with zeros).

    >>> import pullback as torch
    >>> torch.fft.fft(torch.tensor([1.0, 0.0, 0.0, 0.0])).real
    tensor([1., 1., 1., 1.])
    """
    return _all_complex("fft.fft", input, n, dim, norm, out, inverse=False)


@numpy_spelled
def ifft(
    input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
) -> Any:
    """The inverse of `fft`.

    >>> import pullback as torch
    >>> torch.fft.ifft(torch.tensor([4.0, 0.0, 0.0, 0.0])).real
    tensor([1., 1., 1., 1.])
    """
    return _all_complex("fft.ifft", input, n, dim, norm, out, inverse=True)


def _all_complex(
    op: str, input: Any, n: Any, dim: int, norm: Any, out: Any, *, inverse: bool
) -> Any:
    at = _line(op, input, dim)
    input = _fitted(op, _floating(op, input), (at,), (_size_along(op, input, at, n),))
    return delivered(op, _c2c(input, (at,), _scale(op, norm, inverse=inverse), inverse), out)


@numpy_spelled
def rfft(
    input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
) -> Any:
    """The transform of real numbers: the frequencies from 0 to half, which determine the others.

    >>> import pullback as torch
    >>> torch.fft.rfft(torch.ones(4)).real
    tensor([4., 0., 0.])
    """
    return _half_spectrum("fft.rfft", input, n, dim, norm, out, inverse=False)


@numpy_spelled
def ihfft(
    input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
) -> Any:
    """The inverse of `hfft`: the half of a Hermitian signal whose spectrum is `input`.

    >>> import pullback as torch
    >>> torch.fft.ihfft(torch.tensor([4.0, 0.0, 0.0, 0.0])).real
    tensor([1., 1., 1.])
    """
    return _half_spectrum("fft.ihfft", input, n, dim, norm, out, inverse=True)


def _half_spectrum(
    op: str, input: Any, n: Any, dim: int, norm: Any, out: Any, *, inverse: bool
) -> Any:
    at = _line(op, input, dim)
    input = _fitted(op, _real(op, input), (at,), (_size_along(op, input, at, n),))
    result = _r2c(input, (at,), _scale(op, norm, inverse=inverse))
    return delivered(op, conj(result) if inverse else result, out)


@numpy_spelled
def irfft(
    input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
) -> Any:
    """The inverse of `rfft`; give `n` where it was odd.

    >>> import pullback as torch
    >>> torch.fft.irfft(torch.tensor([4.0, 0.0, 0.0]), n=4)
    tensor([1., 1., 1., 1.])
    """
    return _real_signal("fft.irfft", input, n, dim, norm, out, inverse=True)


@numpy_spelled
def hfft(
    input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None
) -> Any:
    """The real spectrum of a Hermitian signal, given by its half; give `n` where it is odd.

    >>> import pullback as torch
    >>> torch.fft.hfft(torch.tensor([1.0, 0.0, 0.0]), n=4)
    tensor([1., 1., 1., 1.])
    """
    return _real_signal("fft.hfft", input, n, dim, norm, out, inverse=False)


def _real_signal(
    op: str, input: Any, n: Any, dim: int, norm: Any, out: Any, *, inverse: bool
) -> Any:
    at = _line(op, input, dim)
    size = _whole_size(op, input, at, n)
    half = _fitted(op, _complex(op, input), (at,), (size // 2 + 1,))
    result = _c2r(half if inverse else conj(half), (at,), _scale(op, norm, inverse=inverse), size)
    return delivered(op, result, out)


def _whole_size(op: str, input: Any, dim: int, n: int | None) -> int:
    check_int_if_given(n, op, "n")
    size = 2 * (input.shape[dim] - 1) if n is None else n
    if size < 1:
        raise RuntimeError(
            f"{op}: there must be at least one point along dimension {dim}, got {size}; give its "
            "size."
        )
    return size


# Several dimensions -------------------------------------------------------------------------------


@numpy_spelled
def fftn(
    input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None
) -> Any:
    """The discrete Fourier transform over all dimensions, or `dim`, to sizes `s`.

    >>> import pullback as torch
    >>> torch.fft.fftn(torch.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _all_complex_n("fft.fftn", input, s, dim, norm, out, inverse=False)


@numpy_spelled
def ifftn(
    input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None
) -> Any:
    """The inverse of `fftn`.

    >>> import pullback as torch
    >>> torch.fft.ifftn(torch.tensor([[4.0, 0.0], [0.0, 0.0]])).real
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _all_complex_n("fft.ifftn", input, s, dim, norm, out, inverse=True)


def _all_complex_n(
    op: str, input: Any, s: Any, dim: Any, norm: Any, out: Any, *, inverse: bool
) -> Any:
    dims, sizes = _sizes(op, input, s, dim)
    input = _fitted(op, _floating(op, input), dims, sizes)
    scale = _scale(op, norm, inverse=inverse)
    result = _c2c(input, dims, scale, inverse) if dims else _complex(op, input).clone()
    return delivered(op, result, out)


def _needs_dims(op: str, dims: tuple[int, ...]) -> None:
    if not dims:
        raise RuntimeError(f"{op}: needs at least one dimension to transform.")


@numpy_spelled
def rfftn(
    input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None
) -> Any:
    """The transform of real numbers; the last dimension has half of the frequencies.

    >>> import pullback as torch
    >>> torch.fft.rfftn(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """
    op = "fft.rfftn"
    dims, sizes = _sizes(op, input, s, dim)
    _needs_dims(op, dims)
    input = _fitted(op, _real(op, input), dims, sizes)
    return delivered(op, _r2c(input, dims, _scale(op, norm, inverse=False)), out)


@numpy_spelled
def ihfftn(
    input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None
) -> Any:
    """The inverse of `hfftn`.

    >>> import pullback as torch
    >>> torch.fft.ihfftn(torch.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    op = "fft.ihfftn"
    dims, sizes = _sizes(op, input, s, dim)
    _needs_dims(op, dims)
    input = _fitted(op, _real(op, input), dims, sizes)
    # The conjugate of the forward transform of real numbers is their inverse one.
    return delivered(op, conj(_r2c(input, dims, _scale(op, norm, inverse=True))), out)


@numpy_spelled
def irfftn(
    input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None
) -> Any:
    """The inverse of `rfftn`; give `s` where the last size was odd.

    >>> import pullback as torch
    >>> torch.fft.irfftn(torch.fft.rfftn(torch.ones(2, 2)), s=(2, 2))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return _real_signal_n("fft.irfftn", input, s, dim, norm, out, inverse=True)


@numpy_spelled
def hfftn(
    input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None
) -> Any:
    """The real spectrum of a signal that is Hermitian in the last dimension, given by its half.

    >>> import pullback as torch
    >>> torch.fft.hfftn(torch.ones(2, 2), s=(2, 2))
    tensor([[4., 0.],
            [0., 0.]])
    """
    return _real_signal_n("fft.hfftn", input, s, dim, norm, out, inverse=False)


def _real_signal_n(
    op: str, input: Any, s: Any, dim: Any, norm: Any, out: Any, *, inverse: bool
) -> Any:
    dims, sizes = _sizes(op, input, s, dim)
    _needs_dims(op, dims)
    given = None if s is None or sizes[-1] == -1 else sizes[-1]
    if s is not None and (s if isinstance(s, int) else list(s)[-1]) == -1:
        given = None
    size = _whole_size(op, input, dims[-1], given)
    half = _fitted(op, _complex(op, input), dims, [*sizes[:-1], size // 2 + 1])
    scale = _scale(op, norm, inverse=inverse)
    return delivered(op, _c2r(half if inverse else conj(half), dims, scale, size), out)


@numpy_spelled
def fft2(
    input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Any:
    """As `fftn`, over the last two dimensions by default.

    >>> import pullback as torch
    >>> torch.fft.fft2(torch.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return fftn(input, s, dim, norm, out=out)


@numpy_spelled
def ifft2(
    input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Any:
    """As `ifftn`, over the last two dimensions by default.

    >>> import pullback as torch
    >>> torch.fft.ifft2(torch.tensor([[4.0, 0.0], [0.0, 0.0]])).real
    tensor([[1., 1.],
            [1., 1.]])
    """
    return ifftn(input, s, dim, norm, out=out)


@numpy_spelled
def rfft2(
    input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Any:
    """As `rfftn`, over the last two dimensions by default.

    >>> import pullback as torch
    >>> torch.fft.rfft2(torch.ones(2, 4)).shape
    torch.Size([2, 3])
    """
    return rfftn(input, s, dim, norm, out=out)


@numpy_spelled
def irfft2(
    input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Any:
    """As `irfftn`, over the last two dimensions by default.

    >>> import pullback as torch
    >>> torch.fft.irfft2(torch.fft.rfft2(torch.ones(2, 2)), s=(2, 2))
    tensor([[1., 1.],
            [1., 1.]])
    """
    return irfftn(input, s, dim, norm, out=out)


@numpy_spelled
def hfft2(
    input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Any:
    """As `hfftn`, over the last two dimensions by default.

    >>> import pullback as torch
    >>> torch.fft.hfft2(torch.ones(2, 2), s=(2, 2))
    tensor([[4., 0.],
            [0., 0.]])
    """
    return hfftn(input, s, dim, norm, out=out)


@numpy_spelled
def ihfft2(
    input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None
) -> Any:
    """As `ihfftn`, over the last two dimensions by default.

    >>> import pullback as torch
    >>> torch.fft.ihfft2(torch.ones(2, 2)).real
    tensor([[1., 0.],
            [0., 0.]])
    """
    return ihfftn(input, s, dim, norm, out=out)


# The order of frequencies -------------------------------------------------------------------------


@numpy_spelled
def fftshift(input: Any, dim: Any = None) -> Any:
    """Frequencies in rising order: zero goes to the middle.

    >>> import pullback as torch
    >>> torch.fft.fftshift(torch.tensor([0, 1, 2, -2, -1]))
    tensor([-2, -1,  0,  1,  2])
    """
    dims = as_dims(dim, input.ndim, "fft.fftshift")
    dims = tuple(range(input.ndim)) if dims is None else dims
    return roll(input, tuple(input.shape[d] // 2 for d in dims), dims)


@numpy_spelled
def ifftshift(input: Any, dim: Any = None) -> Any:
    """The inverse of `fftshift`.

    >>> import pullback as torch
    >>> torch.fft.ifftshift(torch.tensor([-2, -1, 0, 1, 2]))
    tensor([ 0,  1,  2, -2, -1])
    """
    dims = as_dims(dim, input.ndim, "fft.ifftshift")
    dims = tuple(range(input.ndim)) if dims is None else dims
    return roll(input, tuple((input.shape[d] + 1) // 2 for d in dims), dims)
