"""Sums with a scaled term, written into memory that is there: the loops of optimisers.

Of float32 or float64 arrays of one dtype and Python numbers, as the in-place forms have them. Each
gives to the last digit what the operator's forward gives; only the last step writes `out`, so what
fails leaves it as it was. A number becomes an array of no dimensions, with which a product takes
half as long; looking it up is written out, since a call would take as long as the product. BLAS
does large sums, in the operators' forwards too.
"""

from __future__ import annotations

from collections.abc import Callable

from numpy import add, multiply, subtract, true_divide

from pullback.core.arrays import F64, Array, number_array, numbers32, numbers64
from pullback.operators.arrays.axpy import LARGE, add_multiple, combine

__all__ = [
    "LARGE",
    *("add_product", "add_quotient", "add_scaled", "average", "interpolate", "large_sum"),
    "subtract_scaled",
]


_ONE = 1  # the default


def add_scaled(out: Array, input: Array, other: Array, alpha: float) -> None:
    """`input + alpha * other`; `out` is `input`."""
    if out.size >= LARGE and add_multiple(out, other, alpha):
        return
    dtype = out.dtype
    scale = (numbers64 if dtype is F64 else numbers32).get(alpha)
    add(input, multiply(other, number_array(alpha, dtype) if scale is None else scale), out)


def subtract_scaled(out: Array, input: Array, other: Array, alpha: float) -> None:
    """`input - alpha * other`; `out` is `input`."""
    if out.size >= LARGE and add_multiple(out, other, -alpha):
        return
    dtype = out.dtype
    scale = (numbers64 if dtype is F64 else numbers32).get(alpha)
    subtract(input, multiply(other, number_array(alpha, dtype) if scale is None else scale), out)


def average(out: Array, kept: float, other: Array, alpha: float) -> None:
    """`kept * out + alpha * other`, in `out`."""
    if out.size >= LARGE and combine(out, kept, other, alpha):
        return
    dtype = out.dtype
    scale = (numbers64 if dtype is F64 else numbers32).get(kept)
    multiply(out, number_array(kept, dtype) if scale is None else scale, out)
    if alpha == 1:
        add(out, other, out)
    else:
        add_scaled(out, out, other, alpha)


def large_sum(input: Array, other: Array, alpha: float) -> Array | None:
    """`input + alpha * other` by BLAS, in memory of its own; None where BLAS cannot have it."""
    if input.size < LARGE or input.shape != other.shape or not input.flags.c_contiguous:
        return None
    out = input.copy()
    return out if add_multiple(out, other, alpha) else None


def _adder(combined: Callable[..., Array], told: str) -> Callable[..., None]:
    """One function for either way of two operands: a call less than a helper of both would take."""

    def add_scaled(out: Array, input: Array, tensor1: Array, tensor2: Array, value: float) -> None:
        part = combined(tensor1, tensor2)
        if value is not _ONE:  # 1.0 changes nothing either; to look for it takes 20 ns
            dtype = out.dtype
            scale = (numbers64 if dtype is F64 else numbers32).get(value)
            if scale is None:
                scale = number_array(value, dtype)
            part = multiply(part, scale, part if part.ndim else None)
        add(input, part, out)

    add_scaled.__doc__ = told
    return add_scaled


add_product = _adder(multiply, "`input + value * tensor1 * tensor2`.")
add_quotient = _adder(true_divide, "`input + value * tensor1 / tensor2`.")


def interpolate(out: Array, input: Array, end: Array, weight: float) -> None:
    """From `input` to `end` by `weight`, from the nearer end."""
    way = subtract(end, input)
    near = abs(weight) < 0.5
    part = weight if near else 1 - weight
    dtype = out.dtype
    scale = (numbers64 if dtype is F64 else numbers32).get(part)
    multiply(way, number_array(part, dtype) if scale is None else scale, way)
    if near:
        add(input, way, out)
    else:
        subtract(end, way, out)
