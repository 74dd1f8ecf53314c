"""How large a number is and which way it points: abs, sign, angle, and back with polar."""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.arrays import some
from pullback.core.dtype import from_numpy_dtype
from pullback.core.tensor import Tensor
from pullback.operators.arrays.blocks import ZEROS
from pullback.operators.conditions import below, floating, has_dims, host, not_empty
from pullback.operators.declare import Array, Namespace, elementwise, kernel, method
from pullback.operators.pointwise.arithmetic import conj, is_complex, keep_where, zeros_of
from pullback.operators.pointwise.complex import empty_complex, imag, real
from pullback.operators.running.inplace import inplace_of

FOUND_IN = {"torch": "abs_ absolute=abs polar"}


def _sign(x: Array) -> Array:
    """-1, 0 or 1, and 0 for NaN, where xp.sign says NaN."""
    zero = ZEROS.get(x.dtype, 0)
    return ((x > zero).view("i1") - (x < zero).view("i1")).astype(x.dtype)


# The way along which |z| stays as it is: what a direction can turn towards.
def _across(g: Any, input: Any, out: Any) -> Any:
    if not is_complex(input):
        return zeros_of(g)
    along = out * real(g * conj(out))
    return keep_where((g - along) / abs(input), input != 0)


@elementwise(
    casts_out=False, input=_across, jvp=lambda d_input, input, out: _across(d_input, input, out)
)
def sgn(xp: Namespace, input: Array) -> Array:
    """The sign of each element; for a complex one, itself divided by its absolute value.

    >>> import pullback as torch
    >>> torch.sgn(torch.tensor([3 + 4j]))
    tensor([0.6000+0.8000j])
    """
    kind = input.dtype.kind
    if kind in "fV":
        return _sign(input)
    return input.copy() if kind == "b" else xp.sign(input)


@elementwise(casts_out=False, input=lambda g: zeros_of(g))
def sign(xp: Namespace, input: Array) -> Array:
    """-1, 0 or 1 for each element; 0 for NaN.

    >>> import pullback as torch
    >>> torch.sign(torch.tensor([-3.0, 0.0, 2.0]))
    tensor([-1.,  0.,  1.])
    """
    kind = input.dtype.kind
    if kind in "fV":
        return _sign(input)
    if kind == "c":
        raise NotImplementedError("sign: complex numbers have no sign; sgn gives their direction.")
    return input.copy() if kind == "b" else xp.sign(input)


_FEW = 4096  # elements: to look for NaN costs less than two comparisons


@kernel(sgn, sign, when=host & floating & not_empty & below(_FEW) & has_dims, declines=True)
def _few_signs(input: Array) -> Array | None:
    out: Array = numpy.sign(input)
    return out if out.item(out.argmax()) <= 1 else None  # NaN would be the largest


def _growth(d_input: Any, input: Any) -> Any:
    return real(conj(sgn(input)) * d_input)


@elementwise(input=lambda g, input: g * sgn(input), jvp=_growth, inplace=False, exact_out=True)
def abs(xp: Namespace, input: Array) -> Array:
    """The absolute value of each element; real for complex ones.

    >>> import pullback as torch
    >>> torch.abs(torch.tensor([-1.5, 2.0, -3.0]))
    tensor([1.5000, 2.0000, 3.0000])
    """
    return xp.absolute(input)


_abs_ = inplace_of(abs, "abs_")


@method
def abs_(input: Tensor) -> Tensor:
    """In-place form of `abs`, for real tensors."""
    if is_complex(input):
        raise RuntimeError("abs_: absolute values are real, the tensor is complex; use abs().")
    return _abs_(input)


def _turn(g: Any, input: Any) -> Any:
    if not is_complex(input):
        return zeros_of(g)
    return keep_where(g * 1j / conj(input), input != 0)


def _turned(d_input: Any, input: Any) -> Any:
    if not is_complex(input):
        return zeros_of(d_input)
    return imag(keep_where(d_input / input, input != 0))


@elementwise(input=_turn, jvp=_turned, promote="float", inplace=False)
def angle(xp: Namespace, input: Array) -> Array:
    """The angle in the complex plane, in radians: 0 or pi for real numbers.

    >>> import pullback as torch
    >>> torch.angle(torch.tensor([1 + 1j, -1 + 0j]))
    tensor([0.7854, 3.1416])
    """
    if input.dtype.kind == "c":
        return xp.arctan2(input.imag, input.real)
    straight = xp.asarray(xp.multiply(input < 0, input.dtype.type(math.pi)))
    unknown = xp.isnan(input)
    if some(unknown):
        xp.copyto(straight, input, where=unknown)
    return straight


def _polar_tangent(d_abs: Any, d_angle: Any, out: Any) -> Any:
    outwards = 0 if d_abs is None else d_abs * sgn(out)
    return outwards if d_angle is None else outwards + d_angle * (out * 1j)


@elementwise(
    casts_out=False,
    abs=lambda g, out: real(g * conj(sgn(out))),
    angle=lambda g, out: real(g * conj(out * 1j)),
    jvp=_polar_tangent,
    promote=None,
    method=False,
)
def polar(xp: Namespace, abs: Array, angle: Array) -> Array:
    """Complex numbers from their absolute values and angles.

    >>> import pullback as torch
    >>> torch.polar(torch.tensor([2.0]), torch.tensor([0.0]))
    tensor([2.+0.j])
    """
    if abs.dtype.char not in "fd":
        raise RuntimeError(f"polar: not possible in {from_numpy_dtype(abs.dtype)}.")
    out = empty_complex(xp, "polar", abs, angle)
    out.real = abs * xp.cos(angle)
    out.imag = abs * xp.sin(angle)
    return out
