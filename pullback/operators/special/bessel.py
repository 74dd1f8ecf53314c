"""Bessel functions.

The modified ones of the first kind, which have gradients, are computed here where SciPy is not
installed. The others need it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from pullback.core.arrays import Array, Namespace
from pullback.core.errors import unsupported
from pullback.core.tensor import Tensor
from pullback.operators.arrays.scipy_special import from_scipy, scipy_or
from pullback.operators.declare import elementwise
from pullback.operators.pointwise.arithmetic import keep_where
from pullback.operators.pointwise.direction import sgn
from pullback.operators.tensor.convert import astype

FOUND_IN = {"torch": "i0_", "special": "i0"}


# Modified, first kind ---------------------------------------------------------------------------

# Chebyshev coefficients, fitted for this file: of exp(-x) I0(x) and exp(-x) I1(x) / x in x / 4 - 1
# for 0 <= x <= 8, and of exp(-x) sqrt(x) I(x) in 16 / x - 1 beyond.
_NEAR_0 = (
    *(0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764),
    *(0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576),
    *(0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165),
    *(-5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06),
    *(1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08),
    *(-1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10),
    *(9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12),
    *(-4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14),
    *(1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17),
)
_NEAR_1 = (
    *(0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499),
    *(0.024726449030626516, -0.010564084894626197, 0.004156422944312888),
    *(-0.0015135724506312532, 0.0005122859561685758, -0.00016176081582589674),
    *(4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06),
    *(-8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08),
    *(9.381537386495773e-09, -1.8872497517228294e-09, 3.625590281552117e-10),
    *(-6.663489723502027e-11, 1.1736186298890901e-11, -1.9839743977649436e-12),
    *(3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15),
    *(-1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17),
)
_FAR_0 = (
    *(0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06),
    *(2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09),
    *(4.94060238822497e-10, 1.1889147107846439e-11, -3.1499165279632416e-11),
    *(-1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13),
    *(3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14),
    *(-9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15),
    *(-3.425485619677219e-16, -2.8276239805165836e-16, 3.461222867697461e-17),
    *(4.46562142029676e-17,),
)
_FAR_1 = (
    *(0.38928811750914005, -0.009761097491361469, -0.00011058893876262371),
    *(-3.882564808877691e-06, -2.512236237870209e-07, -2.6314688468895196e-08),
    *(-3.835380385964237e-09, -5.589743462196584e-10, -1.8974958123505413e-11),
    *(3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12),
    *(-7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14),
    *(4.272440016711951e-14, 1.0420276984128802e-14, -3.8144030724370075e-15),
    *(-1.8803547755107825e-15, 3.3082023109209285e-16, 2.96262899764595e-16),
    *(-3.209525921993424e-17, -4.6503053684893586e-17),
)


def _chebyshev(coefficients: tuple[float, ...], t: Array) -> Array:
    """The sum of Chebyshev polynomials, by Clenshaw's recurrence."""
    last, total = 0.0 * t, 0.0 * t
    for coefficient in coefficients[:0:-1]:
        last, total = total, 2 * t * total - last + coefficient
    return t * total - last + coefficients[0]


def _scaled_i0(xp: Namespace, x: Array) -> Array:
    size = xp.absolute(x)
    near = _chebyshev(_NEAR_0, xp.minimum(size, 8) / 4 - 1)
    beyond = xp.maximum(size, 8)
    return xp.where(size <= 8, near, _chebyshev(_FAR_0, 16 / beyond - 1) / xp.sqrt(beyond))


def _scaled_i1(xp: Namespace, x: Array) -> Array:
    size = xp.absolute(x)
    near = size * _chebyshev(_NEAR_1, xp.minimum(size, 8) / 4 - 1)
    beyond = xp.maximum(size, 8)
    far = _chebyshev(_FAR_1, 16 / beyond - 1) / xp.sqrt(beyond)
    return xp.copysign(xp.where(size <= 8, near, far), x)


def _unscaled(scaled: Callable[[Namespace, Array], Array], xp: Namespace, x: Array) -> Array:
    half = xp.exp(xp.absolute(x) / 2)  # in two steps, lest e to the x overflow before the result
    return scaled(xp, x) * half * half


_i0 = partial(_unscaled, _scaled_i0)
_i1 = partial(_unscaled, _scaled_i1)


@elementwise(input=lambda g, input: g * i1(input), promote="float")
def i0(xp: Namespace, input: Array) -> Array:
    """The modified Bessel function of the first kind, order 0.

    >>> import pullback as torch
    >>> torch.i0(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """
    return scipy_or(xp, "i0", "i0", _i0, input)


@elementwise(
    input=lambda g, input, out: g * (i1e(input) - sgn(input) * out),
    promote="float",
    space="special",
    node="SpecialI0EBackward0",
)
def i0e(xp: Namespace, input: Array) -> Array:
    """`exp(-abs(x)) * i0(x)`.

    >>> import pullback as torch
    >>> torch.special.i0e(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 0.4658])
    """
    return scipy_or(xp, "i0e", "i0e", _scaled_i0, input)


def _over(out: Any, input: Any) -> Any:
    """`out / input` for what is `input / 2` near 0, with derivatives there."""
    zero = input == 0
    return keep_where(out / (input + zero), ~zero) + astype(zero, input.dtype) * 0.5


@elementwise(
    input=lambda g, input, out: g * (i0(input) - _over(out, input)),
    promote="float",
    space="special",
    node="SpecialI1Backward0",
)
def i1(xp: Namespace, input: Array) -> Array:
    """The modified Bessel function of the first kind, order 1.

    >>> import pullback as torch
    >>> torch.special.i1(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """
    return scipy_or(xp, "i1", "i1", _i1, input)


@elementwise(
    input=lambda g, input, out: g * (i0e(input) - sgn(input) * out - _over(out, input)),
    promote="float",
    space="special",
    node="SpecialI1EBackward0",
)
def i1e(xp: Namespace, input: Array) -> Array:
    """`exp(-abs(x)) * i1(x)`.

    >>> import pullback as torch
    >>> torch.special.i1e(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.2079])
    """
    return scipy_or(xp, "i1e", "i1e", _scaled_i1, input)


# Without gradients ------------------------------------------------------------------------------


def _by_scipy(name: str, function: str, kind: str, at_one: str) -> Callable[..., Tensor]:
    """An operator that is one of SciPy's functions; its value at 1 is the example."""

    def forward(xp: Namespace, input: Array) -> Array:
        return from_scipy(xp, name, function, input)

    forward.__doc__ = f"""The {kind}, order {name[-1]}.

    >>> import pullback as torch
    >>> torch.special.{name}(torch.tensor([1.0]))
    tensor([{at_one}])
    """
    return elementwise(name=name, promote="float", space="special")(forward)


modified_bessel_k0 = _by_scipy(
    "modified_bessel_k0", "k0", "modified Bessel function of the second kind", "0.4210"
)
modified_bessel_k1 = _by_scipy(
    "modified_bessel_k1", "k1", "modified Bessel function of the second kind", "0.6019"
)
bessel_j0 = _by_scipy("bessel_j0", "j0", "Bessel function of the first kind", "0.7652")
bessel_j1 = _by_scipy("bessel_j1", "j1", "Bessel function of the first kind", "0.4401")
bessel_y0 = _by_scipy("bessel_y0", "y0", "Bessel function of the second kind", "0.0883")
bessel_y1 = _by_scipy("bessel_y1", "y1", "Bessel function of the second kind", "-0.7812")


@elementwise(promote="float", space="special")
def modified_bessel_i0(xp: Namespace, input: Array) -> Array:
    """As `i0`, without a gradient.

    >>> import pullback as torch
    >>> torch.special.modified_bessel_i0(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 1.2661])
    """
    return scipy_or(xp, "modified_bessel_i0", "i0", _i0, input)


@elementwise(promote="float", space="special")
def modified_bessel_i1(xp: Namespace, input: Array) -> Array:
    """As `i1`, without a gradient.

    >>> import pullback as torch
    >>> torch.special.modified_bessel_i1(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.5652])
    """
    return scipy_or(xp, "modified_bessel_i1", "i1", _i1, input)


# Torch calls their argument `x`.


@elementwise(promote="float", space="special")
def scaled_modified_bessel_k0(xp: Namespace, x: Array) -> Array:
    """`exp(x) * modified_bessel_k0(x)`.

    >>> import pullback as torch
    >>> torch.special.scaled_modified_bessel_k0(torch.tensor([1.0, 2.0]))
    tensor([1.1445, 0.8416])
    """
    return from_scipy(xp, "scaled_modified_bessel_k0", "k0e", x)


@elementwise(promote="float", space="special")
def scaled_modified_bessel_k1(xp: Namespace, x: Array) -> Array:
    """`exp(x) * modified_bessel_k1(x)`.

    >>> import pullback as torch
    >>> torch.special.scaled_modified_bessel_k1(torch.tensor([1.0, 2.0]))
    tensor([1.6362, 1.0335])
    """
    return from_scipy(xp, "scaled_modified_bessel_k1", "k1e", x)


@elementwise(promote="float", space="special")
def airy_ai(xp: Namespace, x: Array) -> Array:
    """Airy's function Ai.

    >>> import pullback as torch
    >>> torch.special.airy_ai(torch.tensor([0.0, 1.0]))
    tensor([0.3550, 0.1353])
    """
    # SciPy gives Ai, Ai', Bi and Bi' at once, and no half precision.
    single = x.astype(xp.float32) if x.dtype.itemsize == 2 else x
    value = xp.asarray(from_scipy(xp, "airy_ai", "airy", single)[0])
    lost = xp.isnan(value) & xp.isfinite(single)
    if lost.any():  # where SciPy gives up, for the large
        value = xp.where(lost, _far_airy(xp, single), value)
    return value.astype(x.dtype)


def _far_airy(xp: Namespace, x: Array) -> Array:
    """The first term of the expansion for large x: 0 at the right, a slow wave at the left."""
    size = abs(x.astype(xp.float64))
    angle = 2 * size * xp.sqrt(size) / 3 + math.pi / 4
    return xp.where(x > 0, 0, xp.sin(angle) / xp.sqrt(math.pi * xp.sqrt(size)))


@elementwise(promote="float", space="special")
def spherical_bessel_j0(xp: Namespace, x: Array) -> Array:
    """The spherical Bessel function of the first kind, order 0: `sin(x) / x`.

    >>> import pullback as torch
    >>> torch.special.spherical_bessel_j0(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 0.8415])
    """
    if x.dtype.kind == "c":
        raise unsupported("spherical_bessel_j0", x)
    kind = x.dtype.type
    value = xp.where(x == 0, kind(1), xp.sin(x) / x)
    return xp.where(xp.isinf(x), kind(0), value)
