"""Transforms of single numbers."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

from pullback.distributions import constraints
from pullback.distributions.package import torch
from pullback.distributions.transforms.base import Transform
from pullback.distributions.utils import (
    all_true,
    broadcast_all,
    finfo_of,
    lazy_property,
    sigmoid_inside,
)

__all__ = [
    *("AbsTransform", "AffineTransform", "CumulativeDistributionTransform", "ExpTransform"),
    *("PowerTransform", "SigmoidTransform", "SoftplusTransform", "TanhTransform"),
]


class _Plain(Transform):
    """A rising bijection without parameters; any two of a class are equal."""

    domain = constraints.real
    bijective = True
    sign: Any = 1

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self))


class ExpTransform(_Plain):
    """y = exp(x).

    >>> import pullback as torch
    >>> torch.distributions.ExpTransform()(torch.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return x.exp()

    def _inverse(self, y: Any) -> Any:
        return y.log()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return x


class SigmoidTransform(_Plain):
    """y = 1 / (1 + exp(-x)); 0 and 1 themselves are left out, so that the inverse is finite.

    >>> import pullback as torch
    >>> torch.distributions.SigmoidTransform()(torch.tensor([0.0]))
    tensor([0.5000])
    """

    codomain = constraints.unit_interval

    def _call(self, x: Any) -> Any:
        return sigmoid_inside(x)

    def _inverse(self, y: Any) -> Any:
        limits = finfo_of(y)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -torch.nn.functional.softplus(-x) - torch.nn.functional.softplus(x)


class SoftplusTransform(_Plain):
    """y = log(1 + exp(x)), and x itself where that is above 20.

    >>> import pullback as torch
    >>> torch.distributions.SoftplusTransform()(torch.tensor([0.0]))
    tensor([0.6931])
    """

    codomain = constraints.positive

    def _call(self, x: Any) -> Any:
        return torch.nn.functional.softplus(x)

    def _inverse(self, y: Any) -> Any:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -torch.nn.functional.softplus(-x)


class TanhTransform(_Plain):
    """y = tanh(x); as a composition of sigmoid and affine it would lose digits.

    >>> import pullback as torch
    >>> torch.distributions.TanhTransform()(torch.tensor([0.0, 1.0]))
    tensor([0.0000, 0.7616])
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Any) -> Any:
        return x.tanh()

    def _inverse(self, y: Any) -> Any:
        return torch.atanh(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        # log(1 - tanh(x)**2), without the cancellation of that
        return 2.0 * (math.log(2.0) - x - torch.nn.functional.softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|, which no function undoes; the inverse gives the positive one.

    >>> import pullback as torch
    >>> torch.distributions.AbsTransform()(torch.tensor([-1.0, 2.0]))
    tensor([1., 2.])
    """

    domain = constraints.real
    codomain = constraints.positive

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    def _call(self, x: Any) -> Any:
        return x.abs()

    def _inverse(self, y: Any) -> Any:
        return y


class PowerTransform(Transform):
    """y = x ** exponent, for positive x.

    >>> import pullback as torch
    >>> torch.distributions.PowerTransform(torch.tensor(2.0))(torch.tensor([3.0]))
    tensor([9.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return PowerTransform(self.exponent, cache_size=cache_size)

    @lazy_property
    def sign(self) -> Any:
        return self.exponent.sign()

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and all_true(self.exponent.eq(other.exponent))

    def _call(self, x: Any) -> Any:
        return x.pow(self.exponent)

    def _inverse(self, y: Any) -> Any:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        return torch.broadcast_shapes(shape, getattr(self.exponent, "shape", ()))

    def inverse_shape(self, shape: Any) -> Any:
        return self.forward_shape(shape)


class AffineTransform(Transform):
    """y = loc + scale * x; `event_dim` says how many dimensions make an event.

    >>> import pullback as torch
    >>> torch.distributions.AffineTransform(1.0, 2.0)(torch.tensor([0.0, 1.0]))
    tensor([1., 3.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc = loc
        self.scale = scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> Any:
        return self._event_dim

    @property
    def domain(self) -> Any:
        if self.event_dim == 0:
            return constraints.real
        return constraints.independent(constraints.real, self.event_dim)

    @property
    def codomain(self) -> Any:
        return self.domain

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _same(self.loc, other.loc) and _same(self.scale, other.scale)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Number):
            return (self.scale > 0) - (self.scale < 0)  # type: ignore[operator]  # a real number
        return self.scale.sign()

    def _call(self, x: Any) -> Any:
        return self.loc + self.scale * x

    def _inverse(self, y: Any) -> Any:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        if isinstance(self.scale, Number):
            result = torch.full_like(x, math.log(abs(self.scale)))  # type: ignore[arg-type]  # a real number
        else:
            result = torch.abs(self.scale).log()
        if self.event_dim:
            result = result.sum(tuple(range(-self.event_dim, 0)))
        return result.expand(x.shape[: x.dim() - self.event_dim])

    def forward_shape(self, shape: Any) -> Any:
        shapes = getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ())
        return torch.broadcast_shapes(shape, *shapes)

    def inverse_shape(self, shape: Any) -> Any:
        return self.forward_shape(shape)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Number) and isinstance(b, Number):
        return a == b
    return all_true(a == b)


class CumulativeDistributionTransform(Transform):
    """The cdf of a distribution, from its support to the numbers between 0 and 1.

    >>> import pullback as torch
    >>> d = torch.distributions
    >>> d.CumulativeDistributionTransform(d.Normal(0.0, 1.0))(torch.tensor(0.0))
    tensor(0.5000)
    """

    bijective = True
    codomain = constraints.unit_interval
    sign: Any = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:
        return self.distribution.support

    def _call(self, x: Any) -> Any:
        return self.distribution.cdf(x)

    def _inverse(self, y: Any) -> Any:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Any:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
