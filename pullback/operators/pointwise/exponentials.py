"""Exponentials and logarithms, and the parts that a floating-point number is made of."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from pullback.core import errors
from pullback.core.arrays import is_finite
from pullback.core.dtype import NumpyDtype, from_numpy_dtype
from pullback.core.errors import unsupported
from pullback.core.limits import finfo
from pullback.operators.arrays.formats import copy_kept
from pullback.operators.conditions import floating
from pullback.operators.declare import Array, Namespace, elementwise, kernel, method, primitive
from pullback.operators.formula.declare import pointwise
from pullback.operators.formula.formulas import slope, variant
from pullback.operators.pointwise.arithmetic import conj, keep_where, zeros_of
from pullback.operators.pointwise.comparison import isfinite
from pullback.operators.pointwise.rounding import no_derivative
from pullback.operators.results import result_class

FOUND_IN = {
    "torch": """
        exp2_ exp_ expm1_ frexp ldexp_ log10_ log1p_ log2_ log_ logit_ nan_to_num_ sigmoid_
        xlogy_
    """,
    "nn.functional": "sigmoid",
    "special": "exp2 expit=sigmoid expm1 log1p logit xlogy",
}

_LN2 = math.log(2)
_LN10 = math.log(10)

# Exponentials -----------------------------------------------------------------------------------


@elementwise(input=lambda g, out: g * conj(out), promote="float")
def exp(xp: Namespace, input: Array) -> Array:
    """The exponential, e to the power of each element.

    >>> import pullback as torch
    >>> torch.exp(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """
    return xp.exp(input)


@elementwise(input=lambda g, out: g * conj(out * _LN2), promote="float")
def exp2(xp: Namespace, input: Array) -> Array:
    """Raise 2 to each element.

    >>> import pullback as torch
    >>> torch.exp2(torch.tensor([0.0, 3.0]))
    tensor([1., 8.])
    """
    return xp.exp(input * _LN2) if input.dtype.kind == "c" else xp.exp2(input)


@elementwise(input=lambda g, out: g * conj(out + 1), promote="float")
def expm1(xp: Namespace, input: Array) -> Array:
    """`exp(x) - 1`, with all its digits where x is small.

    >>> import pullback as torch
    >>> torch.expm1(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 1.7183])
    """
    return xp.expm1(input)


@pointwise(
    input=slope(lambda out: (1 - out) * out),
    promote="float",
    kinds="fVc",
    holomorphic=True,
    word="sigmoid",
)
def sigmoid(xp: Namespace, input: Array) -> Array:
    """`1 / (1 + exp(-x))`.

    >>> import pullback as torch
    >>> torch.sigmoid(torch.tensor([0.0, 2.0]))
    tensor([0.5000, 0.8808])
    """
    return 1 / (1 + xp.exp(-input))


# Logarithms -------------------------------------------------------------------------------------


@elementwise(input=lambda g, input: g / conj(input), promote="float")
def log(xp: Namespace, input: Array) -> Array:
    """The natural logarithm of each element.

    >>> import pullback as torch
    >>> torch.log(torch.tensor([1.0, 10.0]))
    tensor([0.0000, 2.3026])
    """
    return xp.log(input)


@elementwise(input=lambda g, input: g / conj(input * _LN10), promote="float")
def log10(xp: Namespace, input: Array) -> Array:
    """The logarithm to base 10 of each element.

    >>> import pullback as torch
    >>> torch.log10(torch.tensor([1.0, 10.0]))
    tensor([0., 1.])
    """
    return xp.log10(input)


@elementwise(input=lambda g, input: g / conj(input * _LN2), promote="float")
def log2(xp: Namespace, input: Array) -> Array:
    """The logarithm to base 2 of each element.

    >>> import pullback as torch
    >>> torch.log2(torch.tensor([1.0, 8.0]))
    tensor([0., 3.])
    """
    return xp.log2(input)


def _complex_log1p(xp: Namespace, z: Array) -> Array:
    """NumPy's loses the real part where z is small: |1 + z| is 1 and a little more."""
    x, y = z.real, z.imag
    near = (abs(x) < 0.5) & (abs(y) < 0.5)
    out = xp.asarray(xp.log1p(z))
    small = xp.log1p(xp.where(near, x * (x + 2) + y * y, 0)) / 2
    out.real[...] = xp.where(near, small, out.real)
    return out


@pointwise(
    input=lambda g, input: g / conj(input + 1),
    promote="float",
    node="Log1PBackward0",
    word="log1p",
    of_complex=_complex_log1p,
    inline="numpy.log1p(a0) if a0.dtype is F32 and a0.size < FEW and ndarray is host_array "
    "else forward(numpy, a0)",
)
def log1p(xp: Namespace, input: Array) -> Array:
    """`log(1 + x)`, with all its digits where x is small.

    >>> import pullback as torch
    >>> torch.log1p(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.6931])
    """
    return xp.log1p(input)


_log1p = log1p.formula


# NumPy has fast loops for exp and log, not for log1p: 13 ms for a million float32, this takes 3.
@variant(log1p, "many")
def _corrected_log(xp: Any, input: Any) -> Any:
    """From the logarithm of the rounded 1 + x, corrected by what the rounding lost."""
    near = 1 + input
    lost = ((near - 1) - input) / near
    return xp.log(near) - xp.where(lost == lost, lost, 0.0)  # at -1 and infinity it is right


def complex_logaddexp(xp: Namespace, a: Array, b: Array) -> Array:
    """`log(exp(a) + exp(b))` of complex numbers; of two infinities the quadrant remains."""
    first = a.real >= b.real
    high, low = xp.where(first, a, b), xp.where(first, b, a)
    total = high + xp.log1p(xp.exp(low - high))
    if not (odd := ~(xp.isfinite(low) & xp.isfinite(high))).any():
        return total
    total = xp.where(
        odd & xp.isneginf(low.real), xp.where(xp.isneginf(high.real), low, high), total
    )
    both = odd & xp.isposinf(low.real)
    total = xp.where(both, xp.log(xp.exp(high) + xp.exp(low)), total)
    return xp.where(xp.isnan(a) | xp.isnan(b), complex(math.nan, math.nan), total)


@pointwise(
    input=lambda g, input, other: g / conj(exp(other - input) + 1),
    other=lambda g, input, other: g / conj(exp(input - other) + 1),
    inplace=False,
    numbers=False,
    of_complex=complex_logaddexp,
    inline="numpy.logaddexp(a0, a1) if F32 is a0.dtype is a1.dtype and a0.size < FEW > a1.size "
    "and ndarray is host_array else forward(numpy, a0, a1)",
)
def logaddexp(xp: Namespace, input: Array, other: Array) -> Array:
    """`log(exp(input) + exp(other))`, without overflow in between.

    >>> import pullback as torch
    >>> torch.logaddexp(torch.tensor([0.0]), torch.tensor([0.0]))
    tensor([0.6931])
    """
    apart = xp.where(input == other, 0.0, -abs(input - other))  # infinities are 0 from themselves
    return xp.maximum(input, other) + _log1p(xp, xp.exp(apart))


@variant(logaddexp, "few")
def _by_one_call(xp: Any, input: Any, other: Any) -> Any:
    return xp.logaddexp(input, other)


@elementwise(
    input=lambda g, input, other: g / (exp2(other - input) + 1),
    other=lambda g, input, other: g / (exp2(input - other) + 1),
    inplace=False,
    numbers=False,
)
def logaddexp2(xp: Namespace, input: Array, other: Array) -> Array:
    """`log2(2 ** input + 2 ** other)`, without overflow in between.

    >>> import pullback as torch
    >>> torch.logaddexp2(torch.tensor([1.0]), torch.tensor([1.0]))
    tensor([2.])
    """
    if input.dtype.kind not in "fV":
        raise unsupported("logaddexp2", input)
    return xp.logaddexp2(input, other)


def _times_log(g: Any, input: Any, other: Any) -> Any:
    if not isinstance(other, int | float):
        return keep_where(xlogy(g, other), (input != 0) | ~(other <= 0))
    return g * math.log(other) if other > 0 else keep_where(xlogy(g, other), input != 0)


@pointwise(
    input=_times_log,
    other=lambda g, input, other: g * (input / other),
    promote="float",
    aten="xlogy.Tensor|Scalar_Other:other",
)
def xlogy(xp: Namespace, input: Array, other: Array) -> Array:
    """`input * log(other)`, and 0 where `input` is 0, whatever number `other` is.

    >>> import pullback as torch
    >>> torch.xlogy(torch.tensor([0.0, 2.0]), torch.tensor([0.0, 3.0]))
    tensor([0.0000, 2.1972])
    """
    return xp.where((input == 0) & (other == other), 0.0, input * xp.log(other))


def _logit_slope(input: Any, eps: float | None) -> Any:
    slope = 1 / (input * (1 - input))
    if eps is None:
        return slope + _nan_outside(input)
    return keep_where(slope, ~((input < eps) | (input > 1 - eps)))  # NaN stays NaN


def _nan_outside(input: Any) -> Any:
    """0 where the logarithm of odds has a meaning, NaN elsewhere."""
    return keep_where(zeros_of(input) + math.nan, ~((input >= 0) & (input <= 1)))


@pointwise(
    input=lambda g, input, eps: g * _logit_slope(input, eps), promote="float", choices={"eps": ()}
)
def logit(xp: Namespace, input: Array, eps: float | None = None) -> Array:
    """`log(x / (1 - x))`; with `eps`, of x brought between `eps` and `1 - eps`.

    >>> import pullback as torch
    >>> torch.logit(torch.tensor([0.5, 0.9]))
    tensor([0.0000, 2.1972])
    """
    if eps is not None:
        input = xp.minimum(xp.maximum(input, eps), 1 - eps)
    return xp.log(input / (1 - input))


# Floating-point numbers taken apart -------------------------------------------------------------


@elementwise(
    input=lambda g, input, out: g * keep_where(out / input, input != 0),
    other=lambda g: zeros_of(g),
    promote="float",
    aten="copysign.Tensor|Scalar:other",
    numbers="other",
)
def copysign(xp: Namespace, input: Array, other: Array) -> Array:
    """The size of `input` with the sign of `other`.

    >>> import pullback as torch
    >>> torch.copysign(torch.tensor([1.0, 2.0]), torch.tensor([-1.0, 1.0]))
    tensor([-1.,  2.])
    """
    return xp.copysign(input, other)


@elementwise(
    input=lambda g, other: g * conj(2.0**other),
    other=lambda g, out: g * conj(out * _LN2),
    promote="float",
    numbers=False,
    aten="ldexp.Tensor",
)
def ldexp(xp: Namespace, input: Array, other: Array) -> Array:
    """`input * 2 ** other`.

    >>> import pullback as torch
    >>> torch.ldexp(torch.tensor([1.0, 1.5]), torch.tensor([2, 3]))
    tensor([ 4., 12.])
    """
    if other.dtype.kind == "c":
        return xp.multiply(input, xp.exp(other * _LN2))
    return xp.multiply(input, xp.exp2(other))


@primitive(
    casts_out=False,
    input=lambda g_mantissa, exponent: g_mantissa / 2.0**exponent,
    jvp=lambda d_input, exponent: (d_input / 2.0**exponent, None),
    outputs="mantissa exponent",
    fixed="exponent",
    node="FrexpBackward0",
    aten="frexp.Tensor",
)
def _frexp(xp: Namespace, input: Array) -> Any:
    if input.dtype.kind not in "fV":
        raise RuntimeError("frexp: only floating-point tensors have a mantissa; convert first.")
    return xp.frexp(input)


_FrexpResult = result_class("frexp", "mantissa exponent")


@method
def frexp(input: Any, *, out: Any = None) -> Any:
    """Mantissa and exponent, so that `input` is `mantissa * 2 ** exponent`.

    >>> import pullback as torch
    >>> torch.frexp(torch.tensor([8.0])).exponent
    tensor([4], dtype=torch.int32)
    """
    return _FrexpResult(_frexp(input) if out is None else _frexp(input, out=out))


@elementwise(
    input=lambda g, input, other: g * (input != other), other=lambda g: zeros_of(g), numbers=False
)
def nextafter(xp: Namespace, input: Array, other: Array) -> Array:
    """The next floating-point number after `input`, towards `other`.

    >>> import pullback as torch
    >>> torch.nextafter(torch.tensor([1.0]), torch.tensor([2.0])) > 1
    tensor([True])
    """
    if input.dtype.kind not in "fV":
        raise unsupported("nextafter", input)
    return xp.nextafter(input, other)


def _of_one_dtype(op: str, arrays: dict[str, Any]) -> None:
    """Here torch does not promote."""
    for name, array in arrays.items():
        if not hasattr(array, "dtype"):
            raise errors.not_a_tensor(op, name, array)
    first, second = (from_numpy_dtype(array.dtype) for array in arrays.values())
    if first is not second:
        raise RuntimeError(f"{op}: both tensors must have one dtype, got {first} and {second}.")


@elementwise(
    casts_out=False,
    input=lambda g: no_derivative("heaviside"),
    values=lambda g: no_derivative("heaviside"),
    node="NotImplemented",
    numbers=False,
    check_inputs=_of_one_dtype,
)
def heaviside(xp: Namespace, input: Array, values: Array) -> Array:
    """0 for negative elements, 1 for positive ones, `values` at 0.

    >>> import pullback as torch
    >>> torch.heaviside(torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([0.5]))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if input.dtype.kind == "c":
        raise RuntimeError("heaviside: complex numbers are not ordered.")
    return xp.where(input == 0, values, (input > 0).astype(input.dtype))


@elementwise(casts_out=False, input=lambda g, input: g * isfinite(input))
def nan_to_num(
    xp: Namespace,
    input: Array,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Array:
    """Replace NaN by 0, infinities by the largest finite numbers, or each by the number given.

    >>> import pullback as torch
    >>> torch.nan_to_num(torch.tensor([float("nan"), float("inf")]), posinf=9.0)
    tensor([0., 9.])
    """
    out = copy_kept(xp, input)
    if input.dtype.kind in "biu":
        return out
    for part in (out.real, out.imag) if out.dtype.kind == "c" else (out,):
        largest = _largest(part.dtype)
        xp.copyto(part, 0.0 if nan is None else nan, where=part != part)
        xp.copyto(part, largest if posinf is None else posinf, where=part == math.inf)
        xp.copyto(part, -largest if neginf is None else neginf, where=part == -math.inf)
    return out


@kernel(nan_to_num, when=floating, declines=True)
def _finite(xp: Namespace, input: Array) -> Array | None:
    return copy_kept(xp, input) if is_finite(input) else None


@cache
def _largest(dtype: NumpyDtype) -> float:
    return finfo(from_numpy_dtype(dtype)).max
