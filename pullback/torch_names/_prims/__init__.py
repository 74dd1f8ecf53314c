"""`torch._prims`: the few operators that torch's references are written in, under their names.

Here they are the operators that they stand for, with what is special about their arguments; what
is about torch's own compilers is absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pullback
from pullback.core.tensor import Tensor

# Names that the operators have elsewhere.
_RENAMED = {
    **{f"bessel_{kind}": f"special.{name}" for kind, name in (
        ("i0", "i0"), ("i0e", "i0e"), ("i1", "i1"), ("i1e", "i1e"),
        ("j0", "bessel_j0"), ("j1", "bessel_j1"),
    )},
    "erf_inv": "erfinv", "erfcx": "special.erfcx", "ndtri": "special.ndtri",
    "spherical_bessel_j0": "special.spherical_bessel_j0", "zeta": "special.zeta",
    "shift_left": "bitwise_left_shift", "shift_right_arithmetic": "bitwise_right_shift",
    "broadcast": "broadcast_to", "fill": "full_like",
}  # fmt: skip
# Those whose name and arguments are the operators' own.
_NAMES = """
    abs acos acosh asin asinh atan atanh cos cosh bitwise_not ceil conj_physical digamma erf erfc
    exp expm1 exp2 floor imag isfinite lgamma log log1p log2 log10 neg real reciprocal round sign
    signbit sin sinh sqrt tan tanh trunc add atan2 bitwise_and bitwise_or bitwise_xor eq fmax fmin
    fmod frexp gcd ge gt hypot igamma igammac le lt maximum minimum mul ne nextafter pow remainder
    rsqrt sub as_strided conj where amax amin var reshape squeeze clone
"""
_SAME = frozenset(_NAMES.split())


def cbrt(a: Tensor) -> Any:
    """The cube root, of negative numbers too."""
    return a.sign() * a.abs() ** (1 / 3)


def div(a: Tensor, b: Tensor) -> Any:
    """The quotient; of whole numbers it is cut to one."""
    whole = not (a.dtype.is_floating_point or a.dtype.is_complex)
    return pullback.div(a, b, rounding_mode="trunc" if whole else None)


def broadcast_in_dim(a: Tensor, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    """A view of `shape` in which the dimensions of `a` stand at the places given."""
    sizes = [1] * len(shape)
    for size, dim in zip(a.shape, broadcast_dimensions, strict=True):
        sizes[dim] = size
    return a.reshape(sizes).expand(shape)


def transpose(a: Tensor, permutation: Sequence[int]) -> Any:
    """Dimensions in another order."""
    return a.permute(permutation)


def rev(a: Tensor, dims: Sequence[int]) -> Any:
    """Dimensions backwards."""
    return a.flip(dims)


def cat(tensors: Sequence[Tensor], dim: int) -> Any:
    """One after the other."""
    return pullback.cat(tensors, dim)


def convert_element_type(a: Tensor, dtype: Any) -> Any:
    """A copy of another dtype."""
    return a.to(dtype, copy=True)


def sum(inp: Tensor, dims: Sequence[int]) -> Any:
    """Sums over dimensions, in the dtype of the elements."""
    return inp.sum(dims, dtype=inp.dtype) if len(dims) else inp.clone()


def prod(inp: Tensor, dims: Sequence[int]) -> Any:
    """Products over dimensions, in the dtype of the elements."""
    for dim in sorted(dims, reverse=True):
        inp = inp.prod(dim, dtype=inp.dtype)
    return inp


def iota(
    length: int, *, start: int, step: int, dtype: Any, device: Any, requires_grad: bool
) -> Any:
    """Whole numbers from `start` on."""
    numbers = start + step * pullback.arange(length, dtype=dtype, device=device)
    return numbers.requires_grad_(requires_grad)


def __getattr__(name: str) -> Any:
    path = _RENAMED.get(name) or (name if name in _SAME else None)
    if path is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: Any = pullback
    for part in path.split("."):
        found = getattr(found, part, None) or getattr(pullback.Tensor, part)
    return found
