"""Special functions: the family of erf, the family of gamma, entropies.

`pullback.special` is made of these names; those that torch has at the top level, too, are declared
so.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators import gamma
from pullback.operators.arithmetic import keep_where, mul, unsupported, zeros_of
from pullback.operators.bessel import (
    airy_ai,
    bessel_j0,
    bessel_j1,
    bessel_y0,
    bessel_y1,
    from_scipy,
    i0,
    i0e,
    i1,
    i1e,
    modified_bessel_i0,
    modified_bessel_i1,
    modified_bessel_k0,
    modified_bessel_k1,
    scaled_modified_bessel_k0,
    scaled_modified_bessel_k1,
    spherical_bessel_j0,
)
from pullback.operators.convert import astype
from pullback.operators.declare import METHODS, Array, Namespace, elementwise, method
from pullback.operators.erf import erf as erf_of
from pullback.operators.erf import erfc as erfc_of
from pullback.operators.gamma import in_double
from pullback.operators.inplace import inplace_of
from pullback.operators.pointwise import exp, exp2, expm1, log, log1p, logit, sigmoid, xlogy
from pullback.operators.polynomials import (
    chebyshev_polynomial_t,
    chebyshev_polynomial_u,
    chebyshev_polynomial_v,
    chebyshev_polynomial_w,
    hermite_polynomial_h,
    hermite_polynomial_he,
    laguerre_polynomial_l,
    legendre_polynomial_p,
    shifted_chebyshev_polynomial_t,
    shifted_chebyshev_polynomial_u,
    shifted_chebyshev_polynomial_v,
    shifted_chebyshev_polynomial_w,
)
from pullback.operators.rounding import round
from pullback.operators.trigonometry import sinc

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "logit",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

_ROOT_HALF = math.sqrt(0.5)
_ROOT_PI = math.sqrt(math.pi)


def _check_real(op: str, input: Array) -> None:
    if input.dtype.kind == "c":
        raise unsupported(op, input)


# The error function -----------------------------------------------------------------------------


@elementwise(input=lambda g, input: g * (exp(-(input * input)) * (2 / _ROOT_PI)), promote="float")
def erf(xp: Namespace, input: Array) -> Array:
    """The error function: the chance of a normal variable of variance 1/2 to lie within `x`."""
    _check_real("erf", input)
    return erf_of(xp, input)


@elementwise(input=lambda g, input: g * (exp(-(input * input)) * (-2 / _ROOT_PI)), promote="float")
def erfc(xp: Namespace, input: Array) -> Array:
    """`1 - erf(x)`, with all its digits where that is small."""
    _check_real("erfc", input)
    return erfc_of(xp, input)


def _square_exp(xp: Namespace, x: Array) -> Array:
    """`exp(x * x)`; the square in two parts, since its rounding would show."""
    high = x.astype(xp.float32).astype(xp.float64)
    return xp.exp(high * high) * xp.exp((x - high) * (x + high))


# From here on erfc leaves the normal numbers, and the asymptotic series is exact; as far left the
# result overflows.
_FAR_OUT = 26.0
_OVERFLOW = -27.0


def _erfcx(xp: Namespace, x: Array) -> Array:
    near = xp.minimum(xp.maximum(x, _OVERFLOW), _FAR_OUT)
    inverse = 1 / xp.maximum(x, _FAR_OUT)
    steps = (1.0, -0.5, 0.75, -1.875, 6.5625, -29.53125)
    far = gamma.series(steps, inverse * inverse) * inverse / _ROOT_PI
    return xp.where(x < _FAR_OUT, erfc_of(xp, near) * _square_exp(xp, near), far)


@elementwise(
    input=lambda g, input, out: g * (input * out * 2 - 2 / _ROOT_PI),
    promote="float",
    space="special",
    node="SpecialErfcxBackward0",
)
def erfcx(xp: Namespace, input: Array) -> Array:
    """`exp(x * x) * erfc(x)`."""
    _check_real("erfcx", input)
    return in_double(xp, _erfcx, input)


# y / erf(y), fitted in pieces: in w = -log(1 - erf(y) ** 2) up to 5, then in its root up to 4 and
# up to 27.5, each brought to -1 to 1. Relative errors 6e-9, 6e-8 and 2e-6.
_NEAR = (
    *(1.5014093597051432, 0.6166006960681979, -0.026108677963080425, -0.019573831651937722),
    *(0.008529136194909798, -0.0004856513353507159, -0.0008454817052428313),
    *(0.0002858074785162548, 3.5499267743301996e-05, -3.4108787728596564e-05),
)
_FURTHER = (
    *(2.9513285101486653, 0.8851570428563518, 0.005571871800908036, -0.0036905957767218796),
    *(0.0023337152876413293, -0.0014446499887246958, 0.0006372440951443362),
    *(-3.644027035625493e-05, -7.309655974843355e-05),
)
_FURTHEST = (
    *(15.666182251956348, 11.788883410014744, -0.019447561481196134, 0.011836973244924543),
    *(-0.012916325521204992, -0.0029311950583362128, 0.021689459850796372),
    *(0.011591566923341711, -0.030038019826627484, -0.008306492739416266, 0.015380027070070855),
)


def _guess(xp: Namespace, low: Array, high: Array) -> Array:
    """The y >= 0 with `erf(y) == low` and `erfc(y) == high`, to 7 digits."""
    w = -xp.log(high) - xp.log1p(low)
    root = xp.sqrt(w)
    ratio = gamma.series(_NEAR, w / 2.5 - 1)
    if not (w < 5).all():
        edge = math.sqrt(5)
        further = gamma.series(_FURTHER, (2 * root - edge - 4) / (4 - edge))
        furthest = gamma.series(_FURTHEST, (2 * root - 31.5) / 23.5)
        ratio = xp.where(w < 5, ratio, xp.where(root < 4, further, furthest))
    return xp.where(high == 0, math.inf, ratio * low)


def _inverse_erf(xp: Namespace, low: Array, high: Array) -> Array:
    """As `_guess`, to the last digit: one step of Halley's cubes the error."""
    y = _guess(xp, low, high)
    error = xp.where(high < 0.5, high - erfc_of(xp, y), erf_of(xp, y) - low)
    step = error * _square_exp(xp, y) * (_ROOT_PI / 2)
    return xp.where(high == 0, y, y - step / (1 + y * step))


def _erfinv(xp: Namespace, x: Array) -> Array:
    size = xp.absolute(x)
    return xp.copysign(_inverse_erf(xp, size, 1 - size), x)


def _erfinv_single(xp: Namespace, x: Array) -> Array:
    size = xp.absolute(x)
    return xp.copysign(_guess(xp, size, 1 - size), x)


@elementwise(input=lambda g, input: g * (exp(erfinv(input) ** 2) * (_ROOT_PI / 2)), promote="float")
def erfinv(xp: Namespace, input: Array) -> Array:
    """The inverse of `erf`."""
    _check_real("erfinv", input)
    return in_double(xp, _erfinv if input.dtype == xp.float64 else _erfinv_single, input)


# The normal distribution ------------------------------------------------------------------------


def ndtr(input: Any, *, out: Tensor | None = None) -> Any:
    """The chance of a standard normal variable to lie below each element."""
    return mul(erfc(input * -_ROOT_HALF), 0.5, out=out)


def _ndtri(xp: Namespace, p: Array) -> Array:
    tail = 2 * xp.minimum(p, 1 - p)
    y = _inverse_erf(xp, 1 - tail, tail) / _ROOT_HALF
    return xp.where(p < 0.5, -y, y)


@elementwise(
    input=lambda g, out: g * (exp(out * out * 0.5) * math.sqrt(2 * math.pi)),
    promote="float",
    space="special",
    node="SpecialNdtriBackward0",
)
def ndtri(xp: Namespace, input: Array) -> Array:
    """The inverse of `ndtr`."""
    _check_real("ndtri", input)
    return in_double(xp, _ndtri, input)


def _log_ndtr(xp: Namespace, x: Array) -> Array:
    scaled = x * _ROOT_HALF
    right = xp.log1p(-0.5 * erfc_of(xp, xp.maximum(scaled, -1)))
    left = xp.log(0.5 * _erfcx(xp, -xp.minimum(scaled, 0))) - scaled * scaled
    return xp.where(x < -1, left, right)


@elementwise(
    input=lambda g, input: g * (math.sqrt(2 / math.pi) / erfcx(input * -_ROOT_HALF)),
    promote="float",
    space="special",
    node="SpecialLogNdtrBackward0",
)
def log_ndtr(xp: Namespace, input: Array) -> Array:
    """The logarithm of `ndtr`, with all its digits far to the left, too."""
    _check_real("log_ndtr", input)
    return in_double(xp, _log_ndtr, input)


# The gamma function -----------------------------------------------------------------------------


@elementwise(input=lambda g, input: g * digamma(input), promote="float")
def lgamma(xp: Namespace, input: Array) -> Array:
    """The logarithm of the absolute value of the gamma function."""
    _check_real("lgamma", input)
    return in_double(xp, gamma.lgamma, input)


@elementwise(input=lambda g, input: g * _polygamma(input, 1), promote="float")
def digamma(xp: Namespace, input: Array) -> Array:
    """The logarithmic derivative of the gamma function."""
    _check_real("digamma", input)
    return in_double(xp, gamma.digamma, input)


@elementwise(
    input=lambda g, input, n: g * _polygamma(input, n + 1),
    name="polygamma",
    promote="float",
    method=False,
)
def _polygamma(xp: Namespace, input: Array, n: int) -> Array:
    _check_real("polygamma", input)
    return in_double(xp, lambda xp, x: gamma.polygamma(xp, n, x), input)


def _check_order(n: int) -> None:
    if n < 0:
        raise RuntimeError(f"polygamma: n={n} is negative; derivatives are counted from 0.")


def polygamma(n: int, input: Any, *, out: Tensor | None = None) -> Any:
    """The n-th derivative of `digamma`."""
    _check_order(n)
    return _polygamma(input, n, out=out)


_polygamma_ = inplace_of(_polygamma, "polygamma_")


def _polygamma_method(input: Tensor, n: int) -> Any:
    return polygamma(n, input)


METHODS["polygamma"] = _polygamma_method  # the method has its tensor first, the function last


@method
def polygamma_(input: Tensor, n: int) -> Tensor:
    """In-place form of `polygamma`."""
    _check_order(n)
    return _polygamma_(input, n)


def _sum_of_digammas(input: Any, p: int) -> Any:
    total = digamma(input)
    for j in range(1, p):
        total = total + digamma(input - 0.5 * j)
    return total


@elementwise(input=lambda g, input, p: g * _sum_of_digammas(input, p), promote="float")
def mvlgamma(xp: Namespace, input: Array, p: int) -> Array:
    """The logarithm of the gamma function of `p` dimensions."""
    _check_real("mvlgamma", input)
    if p < 1:
        raise RuntimeError(f"mvlgamma: p={p}, but there is at least one dimension.")

    def total(xp: Namespace, x: Array) -> Array:
        shifted = x[..., None] - 0.5 * xp.arange(p)
        return gamma.lgamma(xp, shifted).sum(-1) + p * (p - 1) / 4 * math.log(math.pi)

    return in_double(xp, total, input)


def _no_order_derivative(op: str) -> Any:
    raise NotImplementedError(f"{op}: the derivative by `input` is not implemented; detach it.")


def _gamma_density(input: Any, other: Any) -> Any:
    return exp((input - 1) * log(other) - other - lgamma(input))


@elementwise(
    input=lambda g: _no_order_derivative("igamma"),
    other=lambda g, input, other: g * _gamma_density(input, other),
    numbers=False,
)
def igamma(xp: Namespace, input: Array, other: Array) -> Array:
    """The regularised lower incomplete gamma function of order `input` at `other`."""
    if input.dtype.kind not in "fV":
        raise unsupported("igamma", input)
    return from_scipy(xp, "igamma", "gammainc", input, other)


@elementwise(
    input=lambda g: _no_order_derivative("igammac"),
    other=lambda g, input, other: -g * _gamma_density(input, other),
    numbers=False,
)
def igammac(xp: Namespace, input: Array, other: Array) -> Array:
    """The regularised upper incomplete gamma function of order `input` at `other`."""
    if input.dtype.kind not in "fV":
        raise unsupported("igammac", input)
    return from_scipy(xp, "igammac", "gammaincc", input, other)


@elementwise(
    input=lambda g: _no_order_derivative("zeta"),
    other=lambda g, input, other: g * (zeta(zeros_of(other) + (input + 1), other) * -input),
    promote="float",
    space="special",
    node="SpecialZetaBackward0",
)
def zeta(xp: Namespace, input: Array, other: Array) -> Array:
    """Hurwitz's zeta function."""
    _check_real("zeta", input)
    return in_double(xp, gamma.zeta, input, other)


# Entropies --------------------------------------------------------------------------------------


@elementwise(
    input=lambda g, input: g * (-log(input) - 1),
    promote="float",
    space="special",
    node="SpecialEntrBackward0",
)
def entr(xp: Namespace, input: Array) -> Array:
    """`-x * log(x)`; 0 at 0, and minus infinity for negative elements."""
    _check_real("entr", input)
    kind = input.dtype.type
    value = xp.where(
        input > 0, -input * xp.log(input), xp.where(input == 0, kind(0), kind(-math.inf))
    )
    return xp.where(input != input, input, value)


def _times_log1p(g: Any, input: Any, other: Any) -> Any:
    if not isinstance(other, int | float):
        return g * keep_where(log1p(astype(other, g.dtype)), (input != 0) | ~(other <= -1))
    if other > -1:
        return g * math.log1p(other)
    return keep_where(g * (-math.inf if other == -1 else math.nan), input != 0)


@elementwise(
    input=_times_log1p,
    other=lambda g, input, other: g * (input / (other + 1)),
    promote="float",
    space="special",
    node="SpecialXlog1PyBackward0",
)
def xlog1py(xp: Namespace, input: Array, other: Array) -> Array:
    """`input * log1p(other)`, and 0 where `input` is 0, whatever number `other` is."""
    product = xp.multiply(input, xp.log1p(other))
    return xp.where((input == 0) & (other == other), input.dtype.type(0), product)


# Other names ------------------------------------------------------------------------------------

expit = sigmoid
gammainc = igamma
gammaincc = igammac
gammaln = lgamma
multigammaln = mvlgamma
psi = digamma
