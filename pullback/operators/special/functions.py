"""Special functions: the family of gamma, entropies, and the names of all others.

`pullback.special` is made of these names; those that torch has at the top level, too, are declared
so.
"""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.arrays import is_finite, is_wrong, some
from pullback.core.errors import unsupported
from pullback.core.tensor import Tensor
from pullback.operators.arrays import gamma
from pullback.operators.arrays.gamma import in_double
from pullback.operators.arrays.row_major import in_order
from pullback.operators.arrays.scipy_special import from_scipy, scipy_or, scipy_special
from pullback.operators.conditions import host, says
from pullback.operators.declare import METHODS, Array, Namespace, elementwise, kernel, method
from pullback.operators.options import as_int
from pullback.operators.pointwise.arithmetic import keep_where, zeros_of
from pullback.operators.pointwise.exponentials import exp, log
from pullback.operators.running.inplace import inplace_of

FOUND_IN = {
    "torch": "polygamma",
    "special": """
        digamma gammainc=igamma gammaincc=igammac gammaln=lgamma multigammaln=mvlgamma
        polygamma psi=digamma
    """,
}


def _check_real(op: str, input: Array) -> None:
    if input.dtype.kind == "c":
        raise unsupported(op, input)


# The gamma function -----------------------------------------------------------------------------


@elementwise(input=lambda g, input: g * digamma(input), promote="float")
def lgamma(xp: Namespace, input: Array) -> Array:
    """The logarithm of the absolute value of the gamma function.

    >>> import pullback as torch
    >>> torch.lgamma(torch.tensor([1.0, 4.0]))
    tensor([0.0000, 1.7918])
    """
    result = xp.asarray(scipy_or(xp, "lgamma", "gammaln", gamma.lgamma, input))
    if result.dtype.char in "fd" and is_finite(result):
        return result
    infinite = xp.isinf(result)
    if infinite.any():  # SciPy does not know that it is so at minus infinity, and not near 0
        result[infinite] = in_double(xp, gamma.lgamma, input[infinite])
    return result


@elementwise(input=lambda g, input: g * _polygamma(input, 1), promote="float")
def digamma(xp: Namespace, input: Array) -> Array:
    """The logarithmic derivative of the gamma function.

    >>> import pullback as torch
    >>> torch.digamma(torch.tensor([1.0, 2.0]))
    tensor([-0.5772,  0.4228])
    """
    return scipy_or(xp, "digamma", "psi", gamma.digamma, input)


@elementwise(
    input=lambda g, input, n: g * _polygamma(input, n + 1),
    name="polygamma",
    promote="float",
    method=False,
    aten="polygamma.default(n input)",
)
def _polygamma(xp: Namespace, input: Array, n: int) -> Array:
    _check_real("polygamma", input)
    if n > _LARGEST_FACTORIAL:
        endless = math.inf if n % 2 else -math.inf
        return in_double(xp, lambda xp, x: endless * gamma.zeta(xp, xp.float64(n + 1), x), input)
    own = scipy_special(xp) is None or n == 0
    return in_double(xp, lambda xp, x: _derived(xp, n, x, own=own), input)


@kernel(_polygamma, when=host & says("not input_ndim", "n > 0"), declines=True)
def _of_one(xp: Namespace, input: Array, input_dtype: Any, n: int) -> Array | None:
    """By SciPy's zeta, where that is installed and can."""
    can = scipy_special(xp) is not None and n <= _LARGEST_FACTORIAL and input_dtype.kind == "f"
    if not can or not -100.0 < (x := float(input)) < math.inf:
        return None
    return xp.asarray(_zeta(xp, n, x), input_dtype)


def _derived(xp: Namespace, n: int, x: Array, *, own: bool) -> Array:
    """The function in float64: `own`, or by SciPy's zeta where that can."""
    if own:
        return gamma.polygamma(xp, n, x)
    if xp is numpy and _all_near(x):
        result: Array = _zeta(xp, n, x)
        return result
    return (gamma.polygamma if _any_far(x) else _by_zeta)(xp, n, x)


def _all_near(x: Array) -> bool:
    """Whether all elements are sure to be finite and not far: a tenth of looking at each."""
    flat = x.ravel()
    return bool(flat.dot(flat) < 100.0**2)


def _any_far(x: Array) -> bool:
    """Whether some element is far on the negative side, where SciPy's zeta takes step by step."""
    return is_wrong(x < -100.0)


def _zeta(xp: Namespace, n: int, x: Any) -> Any:
    """By SciPy's zeta, of finite arguments: 1 us for one element, where ours takes 50."""
    sign = 1.0 if n % 2 else -1.0
    return scipy_special(xp).zeta(n + 1.0, x) * (sign * math.factorial(n))


def _by_zeta(xp: Namespace, n: int, x: Array) -> Array:
    """The same of any."""
    result: Array = _zeta(xp, n, x)
    infinite = xp.isinf(x)
    return xp.where(infinite, xp.where(x > 0, 0.0, math.nan), result) if some(infinite) else result


_LARGEST_FACTORIAL = 170  # that a float can hold


def _order(n: Any) -> int:
    order = as_int(n, "polygamma", "n")
    if order < 0:
        raise RuntimeError(f"polygamma: n={order} is negative; derivatives are counted from 0.")
    return order


def polygamma(n: int, input: Any, *, out: Tensor | None = None) -> Any:
    """The n-th derivative of `digamma`.

    >>> import pullback as torch
    >>> torch.polygamma(1, torch.tensor([1.0]))
    tensor([1.6449])
    """
    return _polygamma(input, _order(n), out=out)


_polygamma_ = inplace_of(_polygamma, "polygamma_")


def _polygamma_method(input: Tensor, n: int) -> Any:
    """The n-th derivative of `digamma`, at this tensor's elements.

    >>> import pullback as torch
    >>> torch.tensor([1.0]).polygamma(1)
    tensor([1.6449])
    """
    return polygamma(n, input)


METHODS["polygamma"] = _polygamma_method  # the method has its tensor first, the function last


@method
def polygamma_(input: Tensor, n: int) -> Tensor:
    """In-place form of `polygamma`."""
    return _polygamma_(input, _order(n))


def _sum_of_digammas(input: Any, p: int) -> Any:
    total = digamma(input)
    for j in range(1, p):
        total = total + digamma(input - 0.5 * j)
    return total


@elementwise(input=lambda g, input, p: g * _sum_of_digammas(input, p), promote="float")
def mvlgamma(xp: Namespace, input: Array, p: int) -> Array:
    """The logarithm of the gamma function of `p` dimensions.

    >>> import pullback as torch
    >>> torch.mvlgamma(torch.tensor([3.0]), 2)
    tensor([1.5502])
    """
    _check_real("mvlgamma", input)
    p = as_int(p, "mvlgamma", "p")
    if p < 1:
        raise RuntimeError(f"mvlgamma: p={p}, but there is at least one dimension.")

    def total(xp: Namespace, x: Array) -> Array:
        shifted = x[..., None] - 0.5 * xp.arange(p)
        return gamma.lgamma(xp, shifted).sum(-1) + p * (p - 1) / 4 * math.log(math.pi)

    return in_order(in_double(xp, total, input))


def _no_order_derivative(op: str) -> Any:
    raise NotImplementedError(f"{op}: the derivative by `input` is not implemented; detach it.")


def _gamma_density(input: Any, other: Any) -> Any:
    return exp((input - 1) * log(other) - other - lgamma(input))


def _incomplete_gamma(xp: Namespace, op: str, name: str, input: Array, other: Array) -> Array:
    if input.dtype.kind not in "fV":
        raise unsupported(op, input)
    return from_scipy(xp, op, name, input, other)


@elementwise(
    input=lambda g: _no_order_derivative("igamma"),
    other=lambda g, input, other: g * _gamma_density(input, other),
    numbers=False,
)
def igamma(xp: Namespace, input: Array, other: Array) -> Array:
    """The regularised lower incomplete gamma function of order `input` at `other`.

    >>> import pullback as torch
    >>> torch.special.gammainc(torch.tensor([1.0]), torch.tensor([1.0]))
    tensor([0.6321])
    """
    return _incomplete_gamma(xp, "igamma", "gammainc", input, other)


@elementwise(
    input=lambda g: _no_order_derivative("igammac"),
    other=lambda g, input, other: -g * _gamma_density(input, other),
    numbers=False,
)
def igammac(xp: Namespace, input: Array, other: Array) -> Array:
    """The regularised upper incomplete gamma function of order `input` at `other`.

    >>> import pullback as torch
    >>> torch.special.gammaincc(torch.tensor([1.0]), torch.tensor([1.0]))
    tensor([0.3679])
    """
    return _incomplete_gamma(xp, "igammac", "gammaincc", input, other)


@elementwise(
    input=lambda g: _no_order_derivative("zeta"),
    other=lambda g, input, other: g * (zeta(zeros_of(other) + (input + 1), other) * -input),
    promote="float",
    space="special",
    node="SpecialZetaBackward0",
)
def zeta(xp: Namespace, input: Array, other: Array) -> Array:
    """Hurwitz's zeta function.

    >>> import pullback as torch
    >>> torch.special.zeta(torch.tensor([2.0]), torch.tensor([1.0]))
    tensor([1.6449])
    """
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
    """`-x * log(x)`; 0 at 0, and minus infinity for negative elements.

    >>> import pullback as torch
    >>> torch.special.entr(torch.tensor([0.0, 0.5]))
    tensor([0.0000, 0.3466])
    """
    _check_real("entr", input)
    value = xp.asarray(xp.negative(input * xp.log(input)))
    xp.copyto(value, 0, where=input == 0)
    xp.copyto(value, -math.inf, where=input < 0)
    return value


def _times_log1p(g: Any, input: Any, other: Any) -> Any:
    if not isinstance(other, int | float):
        return keep_where(xlog1py(g, other), (input != 0) | ~(other <= -1))
    if other > -1:
        return g * float(numpy.log1p(other))  # math.log1p differs from it by a unit here and there
    return keep_where(xlog1py(g, other), input != 0)


@elementwise(
    input=_times_log1p,
    other=lambda g, input, other: g * (input / (other + 1)),
    promote="float",
    space="special",
    node="SpecialXlog1PyBackward0",
)
def xlog1py(xp: Namespace, input: Array, other: Array) -> Array:
    """`input * log1p(other)`, and 0 where `input` is 0, whatever number `other` is.

    >>> import pullback as torch
    >>> torch.special.xlog1py(torch.tensor([0.0, 2.0]), torch.tensor([-1.0, 1.0]))
    tensor([0.0000, 1.3863])
    """
    _check_real("xlog1py", input)
    product = xp.multiply(input, xp.log1p(other))
    return xp.where((input == 0) & (other == other), input.dtype.type(0), product)


# Other names ------------------------------------------------------------------------------------
