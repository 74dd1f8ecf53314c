"""Powers and roots.

Their own file because a power has three forms (the exponent a number, the base a number, neither)
with a node each, and because the common exponents must not cost a general power.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from pullback.core import errors
from pullback.core.arrays import F32, LIBRARIES, some
from pullback.core.dtype import complex128, float64
from pullback.core.errors import unsupported
from pullback.core.layout import cast_kept, empty_like
from pullback.core.promotion import dtype_with_number, is_half
from pullback.core.tensor import Tensor
from pullback.operators.arrays.formats import copy_kept
from pullback.operators.arrays.row_major import in_order
from pullback.operators.conditions import floating, says
from pullback.operators.declare import (
    REQUIRED,
    Array,
    Namespace,
    elementwise,
    kernel,
    method,
    quick,
)
from pullback.operators.options import numpy_named, operand
from pullback.operators.pointwise.arithmetic import (
    conj,
    in_single,
    is_complex,
    keep_where,
    zeros_of,
)
from pullback.operators.pointwise.complex import real
from pullback.operators.running.inplace import inplace_of
from pullback.operators.tensor.convert import astype

FOUND_IN = {"torch": "float_power pow rsqrt_ sqrt_ square square_"}

NUMBERS = (int, float, complex)  # a bool is an int


# Roots ------------------------------------------------------------------------------------------


@elementwise(input=lambda g, out: g / conj(out + out), promote="float")
def sqrt(xp: Namespace, input: Array) -> Array:
    """The square root of each element.

    >>> import pullback as torch
    >>> torch.sqrt(torch.tensor([4.0, 9.0]))
    tensor([2., 3.])
    """
    return xp.sqrt(input)


@elementwise(input=lambda g, out: g * conj(out * out * out * -0.5), promote="float")
def rsqrt(xp: Namespace, input: Array) -> Array:
    """One divided by the square root of each element.

    >>> import pullback as torch
    >>> torch.rsqrt(torch.tensor([4.0, 16.0]))
    tensor([0.5000, 0.2500])
    """
    if input.dtype is not F32 and input.dtype.itemsize == 2:  # in single, rounded once
        return in_single(xp, rsqrt, input)
    return xp.reciprocal(xp.sqrt(input))


# A number as exponent ---------------------------------------------------------------------------

# NumPy's power takes 40 ms for the cubes of 4 million float32, two products take 2 ms.
_LARGEST_PRODUCT = 8


def _by_products(x: Array, exponent: int) -> Array:
    """`x ** exponent` for a positive int, by repeated squaring."""
    result = None
    while True:
        if exponent & 1:
            result = x if result is None else result * x
        exponent >>= 1
        if not exponent:
            return result
        x = x * x


def _ones(xp: Namespace, x: Array) -> Array:
    out = empty_like(xp, x)
    out.fill(1)
    return out


# Exponent -> how to come to it.
_SHORT_CUTS: dict[Any, Callable[[Namespace, Array], Array]] = {
    -1: lambda xp, x: xp.reciprocal(x),
    -0.5: lambda xp, x: xp.reciprocal(xp.sqrt(x)),
    0: _ones,
    0.5: lambda xp, x: xp.sqrt(x),
    1: copy_kept,
    2: lambda xp, x: xp.multiply(x, x),
    3: lambda xp, x: x * x * x,
}


_ONE_STEP = (-1, 0, 0.5, 1, 2)  # of the short cuts, those that round once


def _power(xp: Namespace, x: Array, exponent: Any) -> Array:
    if is_half(x.dtype) and exponent not in _ONE_STEP:
        return _power(xp, x.astype(F32), exponent).astype(x.dtype)
    short_cut = _SHORT_CUTS.get(exponent)
    if short_cut is not None:
        return short_cut(xp, x)
    whole = not isinstance(exponent, complex) and exponent == exponent // 1
    if whole and (x.dtype.kind in "iu" or abs(exponent) <= _LARGEST_PRODUCT):
        product = _by_products(x, abs(int(exponent)))
        return xp.reciprocal(product) if exponent < 0 else product
    return xp.power(x, x.dtype.type(exponent))


def _slope(g: Any, input: Any, exponent: Any) -> Any:
    if exponent == 2:
        return g * conj(input + input)
    if exponent == 0:
        return zeros_of(g)
    return g * conj(_pow_number(input, exponent - 1) * exponent)


@elementwise(
    input=_slope,
    name="pow.Tensor_Scalar",
    promote=None,
    method=False,
    node="PowBackward0",
    aten="pow.Tensor_Scalar",
)
def _pow_number(xp: Namespace, input: Array, exponent: Any) -> Array:
    if input.dtype.kind in "biu" or isinstance(exponent, complex):
        input = cast_kept(input, dtype_with_number(input.dtype, exponent))
        if input.dtype.kind in "iu" and exponent < 0:
            raise RuntimeError(
                f"pow: integers to the negative power {exponent} are not integers; convert the "
                "base first, e.g. with .float()."
            )
    return _power(xp, input, exponent)


# A number as base -------------------------------------------------------------------------------


def _log_of(base: Any, exponent: Any) -> Any:
    if isinstance(base, complex) or (base < 0 and is_complex(exponent)):
        return complex(numpy.log(complex(base)))
    return math.log(base) if base > 0 else math.nan


@kernel(_pow_number, when=says("exponent.__class__ is int", "exponent == 2") & floating)
def _square(input: Array) -> Array:
    return input * input


def _slope_of_exponent(g: Any, input: Any, base: Any, out: Any) -> Any:
    if base == 0:  # constant to the right of 0, and falling without limit elsewhere
        return keep_where(g * conj(out * -math.inf), ~(real(input) >= 0))
    return g * conj(out * _log_of(base, input))


@elementwise(
    input=_slope_of_exponent,
    name="pow.Scalar",
    promote=None,
    method=False,
    node="PowBackward2",
    aten="pow.Scalar(base input)",
)
def _pow_base(xp: Namespace, input: Array, base: Any) -> Array:
    dtype = dtype_with_number(input.dtype, base)
    if input.dtype != dtype:
        input = cast_kept(input, dtype)
    if dtype.kind in "iu":
        return in_order(_integer_power(xp, xp.asarray(base).astype(dtype), input))
    exact = base == 2 and dtype.kind == "f"
    made = xp.exp2(input) if exact else xp.power(dtype.type(base), input)
    return made if made.flags.c_contiguous else in_order(made)


# Neither ----------------------------------------------------------------------------------------


def _integer_power(xp: Namespace, base: Array, exponent: Array) -> Array:
    """Powers of integers; a negative exponent leaves 0 but for the bases 1 and -1."""
    negative = exponent < 0
    if not some(negative):
        return xp.power(base, exponent)
    unit = xp.where(xp.abs(base) == 1, xp.where(exponent & 1, base, 1), 0)
    return xp.where(negative, unit, xp.power(base, xp.where(negative, 0, exponent)))


@elementwise(
    input=lambda g, input, exponent: keep_where(
        g * conj(exponent * input ** (exponent - 1)), exponent != 0
    ),
    exponent=lambda g, input, exponent, out: keep_where(
        g * conj(out * _log(astype(input, out.dtype))), (input != 0) | ~(real(exponent) >= 0)
    ),
    name="pow.Tensor_Tensor",
    method=False,
    node="PowBackward1",
    aten="pow.Tensor_Tensor",
    inline="numpy.power(a0, a1) if a1.size > 1 and a0.dtype is F32 else forward(numpy, a0, a1)",
)
def _pow_tensors(xp: Namespace, input: Array, exponent: Array) -> Array:
    kind = input.dtype.kind
    if kind in "iu":
        return _integer_power(xp, input, exponent)
    if kind == "b":
        raise unsupported("pow", input)
    if type(exponent) not in LIBRARIES and exponent.size == 1 and kind == "f" and exponent == 0.5:
        # NumPy takes the root then, whose values at -inf and -0.0 are not those of a power.
        root = xp.sqrt(xp.add(input, xp.zeros(exponent.shape, input.dtype)))
        return xp.where(input == -math.inf, input.dtype.type(math.inf), root)
    return xp.power(input, exponent)


@elementwise(input=lambda g, input: g / conj(input), promote="float", method=False)
def _log(xp: Namespace, input: Array) -> Array:
    return xp.log(input)


# What users call --------------------------------------------------------------------------------


@quick
@numpy_named
def pow(
    input: Any = REQUIRED,
    exponent: Any = REQUIRED,
    x: Any = None,
    a: Any = None,
    x1: Any = None,
    *,
    out: Tensor | None = None,
) -> Any:
    """`input` to the power of `exponent`; one of the two may be a number.

    >>> import pullback as torch
    >>> torch.pow(torch.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    >>> 2 ** torch.tensor([1.0, 2.0, 3.0])
    tensor([2., 4., 8.])
    """
    if x is not None or a is not None or x1 is not None:
        input = operand("pow", "input", input, x=x, a=a, x1=x1)
    if exponent.__class__ is Tensor is input.__class__ and out is None:
        return _pow_tensors(input, exponent)
    if isinstance(exponent, numpy.generic):
        exponent = exponent.item()
    if isinstance(exponent, NUMBERS):
        return _pow_number(input, exponent, out=out)
    if isinstance(input, NUMBERS):
        return _pow_base(exponent, input, out=out)
    return _pow_tensors(input, exponent, out=out)


_pow_number_ = inplace_of(_pow_number, "pow_")
_pow_tensors_ = inplace_of(_pow_tensors, "pow_")


@method
def pow_(input: Tensor, exponent: Any) -> Tensor:
    """In-place form of `pow`."""
    return (_pow_number_ if isinstance(exponent, NUMBERS) else _pow_tensors_)(input, exponent)


@method
def square(input: Any, *, out: Tensor | None = None) -> Any:
    """Multiply each element by itself.

    >>> import pullback as torch
    >>> torch.square(torch.tensor([2.0, -3.0]))
    tensor([4., 9.])
    """
    return _pow_number(input, 2, out=out)


@method
def square_(input: Tensor) -> Tensor:
    """In-place form of `square`."""
    return _pow_number_(input, 2)


def _doubled(*operands: Any) -> list[Any]:
    """Tensors in double precision, complex if any operand is; numbers as they are."""
    for one in operands:
        if not isinstance(one, (Tensor, *NUMBERS)):
            raise errors.not_a_tensor("float_power", "exponent", one)
    dtype = complex128 if any(is_complex(operand) for operand in operands) else float64
    return [x if isinstance(x, NUMBERS) else astype(x, dtype) for x in operands]


@method
def float_power(input: Any, exponent: Any, *, out: Tensor | None = None) -> Any:
    """As `pow`, always in double precision.

    >>> import pullback as torch
    >>> torch.float_power(torch.tensor([2, 3]), 2)
    tensor([4., 9.], dtype=torch.float64)
    """
    base, power = _doubled(input, exponent)
    if isinstance(out, Tensor):
        wanted = complex128 if is_complex(base) or is_complex(power) else float64
        if out.dtype is not wanted:
            raise errors.inplace_dtype("float_power", out.dtype, wanted)
    return pow(base, power, out=out)


@method
def float_power_(input: Tensor, exponent: Any) -> Tensor:
    """In-place form of `float_power`; the tensor must be of double precision already."""
    base, exponent = _doubled(input, exponent)
    if base is not input:
        raise RuntimeError(
            f"float_power_: the result has {base.dtype}, which does not fit a tensor of "
            f"{input.dtype}; use float_power."
        )
    return pow_(input, exponent)


method(pow)
