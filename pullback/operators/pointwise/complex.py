"""Complex numbers from their parts and back. Parts are views: writing to `z.real` writes to `z`."""

from __future__ import annotations

from typing import Any

from pullback.core.dtype import NumpyDtype, from_numpy_dtype
from pullback.core.layout import empty_like
from pullback.core.memory.narrow import held
from pullback.operators.declare import Array, Namespace, elementwise, view
from pullback.operators.pointwise.arithmetic import as_it_is, is_complex

FOUND_IN = {"torch": "complex imag real view_as_complex view_as_real"}


# Parts ------------------------------------------------------------------------------------------


@view(input=lambda g: g, strided=False, node="SelectBackward0")
def _real(xp: Namespace, input: Array) -> Array:
    return input.real


@view(input=lambda g: g * 1j, strided=False, node="SelectBackward0")
def _imag(xp: Namespace, input: Array) -> Array:
    return input.imag


def real(input: Any) -> Any:
    """The real part, a view; what is real comes back as it is.

    >>> import pullback as torch
    >>> torch.real(torch.tensor([1 + 2j]))
    tensor([1.])
    """
    return _real(input) if is_complex(input) else as_it_is("real", input)


class NoImaginaryPartError(RuntimeError, AttributeError):
    """Torch's RuntimeError, and for `hasattr(x, "imag")`, by which xarray knows arrays, False."""


def imag(input: Any) -> Any:
    """The imaginary part, a view; complex tensors only.

    >>> import pullback as torch
    >>> torch.imag(torch.tensor([1 + 2j]))
    tensor([2.])
    """
    if not is_complex(input):
        raise NoImaginaryPartError(
            f"imag: {input.dtype} has no imaginary part; pass a complex tensor."
        )
    return _imag(input)


@view(input=lambda g: complex(g[..., 0], g[..., 1]), strided=False, method=False)
def view_as_real(xp: Namespace, input: Array) -> Array:
    """A view of real numbers with a last dimension of size 2: real and imaginary parts.

    >>> import pullback as torch
    >>> torch.view_as_real(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if input.dtype.kind not in "cW":
        raise RuntimeError(
            f"view_as_real: the tensor must be complex, got {from_numpy_dtype(input.dtype)}."
        )
    return input[..., None].view(input.real.dtype)


def _complex_of(dtype: NumpyDtype) -> NumpyDtype | None:
    """The dtype of complex numbers with such parts."""
    return from_numpy_dtype(dtype).to_complex().numpy if dtype.char in "efd" else None


@view(input=lambda g: view_as_real(g), strided=False, method=False)
def view_as_complex(xp: Namespace, input: Array) -> Array:
    """A complex view of real numbers whose last dimension holds real and imaginary parts.

    >>> import pullback as torch
    >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    wanted = _complex_of(input.dtype)
    if wanted is None:
        raise RuntimeError(
            f"view_as_complex: the tensor must be float16, float32 or float64, got "
            f"{from_numpy_dtype(input.dtype)}."
        )
    if input.ndim == 0 or input.shape[-1] != 2:
        raise RuntimeError(
            f"view_as_complex: the last dimension must have size 2, got shape {input.shape}."
        )
    size = input.itemsize
    if input.strides[-1] != size or any(stride % (2 * size) for stride in input.strides[:-1]):
        if not input.size:  # of nothing, strides say nothing
            return held(xp.empty(input.shape[:-1], wanted))
        raise RuntimeError(
            "view_as_complex: the two parts of each number must lie side by side in memory; call "
            "contiguous() first."
        )
    return held(input.view(wanted)[..., 0])


# From parts -------------------------------------------------------------------------------------


def empty_complex(xp: Namespace, op: str, first: Array, second: Array) -> Array:
    """An empty complex array for results of two real ones."""
    wanted = _complex_of(first.dtype)
    if wanted is None or first.dtype != second.dtype:
        raise RuntimeError(
            f"{op}: both tensors must be float16, both float32 or both float64, got "
            f"{from_numpy_dtype(first.dtype)} and {from_numpy_dtype(second.dtype)}."
        )
    shape = xp.broadcast(first, second).shape
    whole = second if first.shape != shape == second.shape else first
    if whole.shape == shape:
        return held(empty_like(xp, whole, wanted))
    return held(xp.empty(shape, wanted))


def _complex_tangent(d_real: Any, d_imag: Any) -> Any:
    if d_imag is None:
        return d_real * (1 + 0j)
    return d_imag * 1j if d_real is None else complex(d_real, d_imag)


@elementwise(
    exact_out=True,
    real=lambda g: real(g),
    imag=lambda g: imag(g),
    jvp=_complex_tangent,
    promote=None,
    method=False,
)
def complex(xp: Namespace, real: Array, imag: Array) -> Array:
    """Complex numbers from their real and imaginary parts.

    >>> import pullback as torch
    >>> torch.complex(torch.tensor([1.0]), torch.tensor([-2.0]))
    tensor([1.-2.j])
    """
    out = empty_complex(xp, "complex", real, imag)
    out.real[...] = real
    out.imag[...] = imag
    return out


# Questions --------------------------------------------------------------------------------------


@elementwise(promote=None, inplace=False, has_out=False)
def isreal(xp: Namespace, input: Array) -> Array:
    """Whether each element has no imaginary part.

    >>> import pullback as torch
    >>> torch.isreal(torch.tensor([1 + 0j, 1j]))
    tensor([ True, False])
    """
    if input.dtype.kind in "cW":
        return input.imag == 0
    out = empty_like(xp, input, xp.dtype(bool))
    out.fill(True)
    return out
