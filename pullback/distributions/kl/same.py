"""Divergences within one family."""

from __future__ import annotations

from typing import Any

from pullback.distributions.continuous.beta import Beta
from pullback.distributions.continuous.cauchy import Cauchy
from pullback.distributions.continuous.continuous_bernoulli import ContinuousBernoulli
from pullback.distributions.continuous.exponential import Exponential
from pullback.distributions.continuous.gamma import Gamma
from pullback.distributions.continuous.gumbel import Gumbel
from pullback.distributions.continuous.half_normal import HalfNormal
from pullback.distributions.continuous.laplace import Laplace
from pullback.distributions.continuous.normal import Normal
from pullback.distributions.continuous.pareto import Pareto
from pullback.distributions.continuous.uniform import Uniform
from pullback.distributions.discrete.bernoulli import Bernoulli
from pullback.distributions.discrete.binomial import Binomial
from pullback.distributions.discrete.categorical import Categorical
from pullback.distributions.discrete.geometric import Geometric
from pullback.distributions.discrete.one_hot_categorical import OneHotCategorical
from pullback.distributions.discrete.poisson import Poisson
from pullback.distributions.kl.registry import kl_divergence, register_kl
from pullback.distributions.multivariate.dirichlet import Dirichlet
from pullback.distributions.package import torch
from pullback.distributions.utils import all_true, euler_constant

INF = float("inf")


# Discrete --------------------------------------------------------------------------------------


def _weighted(weight: Any, difference: Any, impossible: Any) -> Any:
    """Weight * difference, infinite where q cannot be; 0 where p cannot be, whatever q is."""
    product = torch.where(impossible, INF, weight * difference)
    return torch.where(weight == 0, torch.zeros_like(product), product)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Any:
    ones = _weighted(
        p.probs,
        torch.nn.functional.softplus(-q.logits) - torch.nn.functional.softplus(-p.logits),
        q.probs == 0,
    )
    zeros = _weighted(
        1 - p.probs,
        torch.nn.functional.softplus(q.logits) - torch.nn.functional.softplus(p.logits),
        q.probs == 1,
    )
    return ones + zeros


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Any:
    if not all_true(p.total_count >= q.total_count):
        raise NotImplementedError("The divergence from a Binomial of more trials is not known.")
    gain = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return torch.where(p.total_count > q.total_count, INF, p.total_count * gain)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Any:
    return _weighted(p.probs, p.logits - q.logits, q.probs == 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Any:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Any:
    return -p.entropy() - torch.log1p(-q.probs) / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Any:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


# Continuous ------------------------------------------------------------------------------------


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Any:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = total.lgamma() - b.sum(-1).lgamma() + (b.lgamma() - a.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Any:
    distance = (p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)
    return distance.log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Any:
    own = p._cont_bern_log_norm() + torch.log1p(-p.probs)
    other = q._cont_bern_log_norm() + torch.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + own - other


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Any:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Any:
    a, b = p.concentration, q.concentration
    norms = b * (p.rate / q.rate).log() + torch.lgamma(b) - torch.lgamma(a)
    return norms + (a - b) * torch.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    shift = (p.loc - q.loc) / q.scale
    tail = torch.exp(torch.lgamma(1 + ratio) - shift)
    return -ratio.log() + shift + ratio * euler_constant + tail - (1 + euler_constant)


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Any:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Any:
    ratio = p.scale / q.scale
    distance = (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * torch.exp(-distance / p.scale) - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Any:
    ratio = (p.scale / q.scale).pow(2)
    shift = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + shift - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Any:
    steepness = q.alpha / p.alpha
    result = q.alpha * (p.scale / q.scale).log() - steepness.log() + steepness - 1
    return torch.where(p.scale < q.scale, INF, result)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Any:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return torch.where((q.low > p.low) | (q.high < p.high), INF, result)
