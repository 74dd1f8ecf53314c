"""Divergences between different families of numbers.

The divergence of p from q is E[-log q(x)] less p's entropy, with x drawn from p. A family q says
here what that expectation is, given moments of p; a family p, what its moments are. Where draws
of p can be impossible under q, it is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pullback.distributions.continuous.beta import Beta
from pullback.distributions.continuous.continuous_bernoulli import ContinuousBernoulli
from pullback.distributions.continuous.exponential import Exponential
from pullback.distributions.continuous.gamma import Gamma
from pullback.distributions.continuous.gumbel import Gumbel
from pullback.distributions.continuous.laplace import Laplace
from pullback.distributions.continuous.normal import Normal
from pullback.distributions.continuous.pareto import Pareto
from pullback.distributions.continuous.uniform import Uniform
from pullback.distributions.discrete.bernoulli import Bernoulli
from pullback.distributions.discrete.binomial import Binomial
from pullback.distributions.discrete.poisson import Poisson
from pullback.distributions.kl.registry import register_kl
from pullback.distributions.package import torch
from pullback.distributions.utils import euler_constant

INF = float("inf")


# Moments of p ------------------------------------------------------------------------------------


def _x_log_x(x: Any) -> Any:
    return torch.special.xlogy(x, x)


def _uniform_mean_log(low: Any, high: Any) -> Any:
    return (_x_log_x(high) - _x_log_x(low)) / (high - low) - 1


MEAN_LOG: dict[type, Callable[[Any], Any]] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -euler_constant - p.rate.log(),
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: _uniform_mean_log(p.low, p.high),
}

# E[exp(-t x)]
LAPLACE_TRANSFORM: dict[type, Callable[[Any, Any], Any]] = {
    Exponential: lambda p, t: p.rate / (p.rate + t),
    Gamma: lambda p, t: (1 + t / p.rate).pow(-p.concentration),
    Normal: lambda p, t: torch.exp(t * (0.5 * p.scale.pow(2) * t - p.loc)),
    Uniform: lambda p, t: (torch.exp(-t * p.low) - torch.exp(-t * p.high)) / (t * (p.high - p.low)),
}


def _moment(table: dict[type, Any], p: Any) -> Any:
    return next(table[kind] for kind in type(p).__mro__ if kind in table)


def _mean_log(p: Any) -> Any:
    return _moment(MEAN_LOG, p)(p)


# What q makes of them: E[-log q(x)] -------------------------------------------------------------


def _to_exponential(p: Any, q: Any) -> Any:
    return q.rate * p.mean - q.rate.log()


def _to_gamma(p: Any, q: Any) -> Any:
    norm = torch.lgamma(q.concentration) - q.concentration * q.rate.log()
    return norm - (q.concentration - 1) * _mean_log(p) + q.rate * p.mean


def _to_normal(p: Any, q: Any) -> Any:
    square = p.variance + (p.mean - q.loc).pow(2)
    return 0.5 * (math.log(2 * math.pi) + square / q.scale.pow(2)) + q.scale.log()


def _to_uniform(p: Any, q: Any) -> Any:
    return (q.high - q.low).log()


def _to_continuous_bernoulli(p: Any, q: Any) -> Any:
    return -p.mean * q.logits - torch.log1p(-q.probs) - q._cont_bern_log_norm()


def _to_gumbel(p: Any, q: Any) -> Any:
    tail = _moment(LAPLACE_TRANSFORM, p)(p, q.scale.reciprocal()) * torch.exp(q.loc / q.scale)
    return q.scale.log() + (p.mean - q.loc) / q.scale + tail


def _to_pareto(p: Any, q: Any) -> Any:
    return (q.alpha + 1) * _mean_log(p) - q.alpha.log() - q.alpha * q.scale.log()


def _to_beta(p: Any, q: Any) -> Any:
    a, b = q.concentration1, q.concentration0
    norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return norm - (a - 1) * _mean_log(p) - (b - 1) * _uniform_mean_log(1 - p.high, 1 - p.low)


def _to_laplace(p: Any, q: Any) -> Any:
    # The mean distance of a normal number from q.loc.
    shift = p.loc - q.loc
    ratio = shift / p.scale
    near = math.sqrt(2 / math.pi) * p.scale * torch.exp(-0.5 * ratio.pow(2))
    return (2 * q.scale).log() + (near + shift * torch.erf(math.sqrt(0.5) * ratio)) / q.scale


def _to_poisson(p: Any, q: Any) -> Any:
    # log(x!) is 0 for 0 and 1
    return q.rate - p.probs * q.rate.log()


# Where draws of p are impossible under q, in spite of a finite formula ----------------------------

_BEYOND_UNIT: Callable[[Any, Any], Any] = lambda p, q: (p.high > 1) | (p.low < 0)  # noqa: E731 (a table's entry)
_BELOW_ZERO: Callable[[Any, Any], Any] = lambda p, q: p.low < 0  # noqa: E731 (a table's entry)
_UNIT_BEYOND: Callable[[Any, Any], Any] = lambda p, q: (q.high < 1) | (q.low > 0)  # noqa: E731 (a table's entry)

IMPOSSIBLE: dict[tuple[type, type], Callable[[Any, Any], Any]] = {
    (Beta, Uniform): _UNIT_BEYOND,
    (ContinuousBernoulli, Uniform): _UNIT_BEYOND,
    (Uniform, Beta): _BEYOND_UNIT,
    (Uniform, ContinuousBernoulli): _BEYOND_UNIT,
    (Uniform, Exponential): _BELOW_ZERO,
    (Uniform, Gamma): _BELOW_ZERO,
    (Uniform, Pareto): lambda p, q: p.low < q.scale,
    (Pareto, Exponential): lambda p, q: p.alpha <= 1,
    (Pareto, Gamma): lambda p, q: p.alpha <= 1,
    (Pareto, Normal): lambda p, q: p.alpha <= 2,
}

# What stands there for p, so that slopes of the formula, infinite or NaN, do not reach anyone.
HARMLESS: dict[type, Callable[[Any, Any], Any]] = {
    Pareto: lambda p, beyond: Pareto(p.scale, torch.where(beyond, 3.0, p.alpha), False),
    Uniform: lambda p, beyond: Uniform(
        torch.where(beyond, 0.25, p.low), torch.where(beyond, 0.75, p.high), False
    ),
}

FINITE: dict[type, tuple[Callable[[Any, Any], Any], tuple[type, ...]]] = {
    Exponential: (_to_exponential, (Beta, ContinuousBernoulli, Gamma, Pareto, Uniform)),
    Gamma: (_to_gamma, (Beta, Exponential, Pareto, Uniform)),
    Normal: (
        _to_normal,
        (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform),
    ),
    Uniform: (_to_uniform, (Beta, ContinuousBernoulli)),
    ContinuousBernoulli: (_to_continuous_bernoulli, (Beta, Uniform)),
    Gumbel: (_to_gumbel, (Exponential, Gamma, Normal, Uniform)),
    Pareto: (_to_pareto, (Uniform,)),
    Beta: (_to_beta, (Uniform,)),
    Laplace: (_to_laplace, (Normal,)),
    Poisson: (_to_poisson, (Bernoulli,)),
}

_BOUNDED = (Beta, ContinuousBernoulli, Uniform)
_HALF_LINE = (Exponential, Gamma, Pareto)
INFINITE: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (*_BOUNDED, Pareto),
    Gamma: (*_BOUNDED, Pareto),
    Gumbel: (*_BOUNDED, *_HALF_LINE),
    Laplace: (*_BOUNDED, *_HALF_LINE),
    Normal: (*_BOUNDED, *_HALF_LINE),
    Pareto: _BOUNDED,
    Poisson: (Bernoulli, Binomial),
}


def _register_finite(kind_p: type, kind_q: type, cross: Callable[[Any, Any], Any]) -> None:
    impossible = IMPOSSIBLE.get((kind_p, kind_q))

    @register_kl(kind_p, kind_q)
    def _divergence(p: Any, q: Any) -> Any:
        if impossible is None:
            return cross(p, q) - p.entropy()
        beyond = impossible(p, q)
        if kind_p in HARMLESS:
            p = HARMLESS[kind_p](p, beyond)
        return torch.where(beyond, INF, cross(p, q) - p.entropy())


def _infinite(p: Any, q: Any) -> Any:
    return torch.full_like(p.mean, INF)


for _q, (_cross, _ps) in FINITE.items():
    for _p in _ps:
        _register_finite(_p, _q, _cross)
for _p, _qs in INFINITE.items():
    for _q in _qs:
        register_kl(_p, _q)(_infinite)
