"""Divergences of every pair that torch knows, with their gradients."""

import numpy
import pytest

import pullback
from tests.distributions.cases import ALL, COVARIANCE, FACTOR, ROWS

torch = pytest.importorskip("torch")

KNOWN = torch.distributions.kl._KL_REGISTRY
BY_NAME = {case.name: case for case in ALL}
FAMILIES = [(p.__name__, q.__name__) for p, q in KNOWN if p.__name__ != "ExponentialFamily"]
# torch's fails for a batch of covariances against one; without batches it is among PAIRS.
FAMILIES.remove(("LowRankMultivariateNormal", "MultivariateNormal"))


def second(case, module):
    """The same family with somewhat larger parameters."""
    params = []
    for array in case.params:
        moved = array + 0.1 * numpy.eye(3) if array.shape == (3, 3) else array * 1.15 + 0.01
        params.append(module.tensor(moved, requires_grad=True))
    return case.make(module.distributions, *params), params


def first(case, module):
    params = [module.tensor(array, requires_grad=True) for array in case.params]
    return case.make(module.distributions, *params), params


def outcome(module, name_p, name_q):
    p, params_p = first(BY_NAME[name_p], module)
    q, params_q = second(BY_NAME[name_q], module)
    result = module.distributions.kl_divergence(p, q)
    if not result.requires_grad:
        return [result]
    finite = result[result.isfinite()]
    params = [*params_p, *params_q]
    return [result, *module.autograd.grad(finite.sum(), params, allow_unused=True)]


# Where the divergence is infinite torch's slopes are NaN here, which a shared parameter spreads.
SPREADING = {("Uniform", "Beta"), ("Uniform", "Gamma"), ("Uniform", "Pareto")}


def assert_alike(ours, theirs, spreading=False):
    for one, other in zip(ours, theirs, strict=False):
        if one is None or other is None:
            given = other if one is None else one
            assert given is None or not given.detach().numpy().any()
            continue
        assert tuple(one.shape) == tuple(other.shape)
        found, expected = one.detach().numpy(), other.detach().numpy()
        if spreading:
            assert not numpy.isnan(found).any()
            found = numpy.where(numpy.isnan(expected), expected, found)
        numpy.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("pair", FAMILIES, ids="-".join)
def test_divergences_and_their_gradients_are_torchs(pair):
    ours, theirs = (outcome(module, *pair) for module in (pullback, torch))
    assert_alike(ours, theirs, pair in SPREADING)


def test_the_same_pairs_are_registered():
    ours = {(p.__name__, q.__name__) for p, q in pullback.distributions.kl._KL_REGISTRY}
    assert ours >= {(p.__name__, q.__name__) for p, q in KNOWN}


PAIRS = {
    "uniform outside": lambda d, t: (d.Uniform(t(0.0), t(2.0)), d.Uniform(t(0.5), t(3.0))),
    "uniform beta": lambda d, t: (d.Uniform(t([0.1, -1.0]), t(0.8)), d.Beta(t(1.5), t(2.5))),
    "uniform continuous": lambda d, t: (
        d.Uniform(t([0.1, -1.0]), t(0.8)),
        d.ContinuousBernoulli(t(0.3)),
    ),
    "uniform exponential": lambda d, t: (d.Uniform(t([0.1, -1.0]), t(0.8)), d.Exponential(t(1.5))),
    "uniform gamma": lambda d, t: (d.Uniform(t([0.1, -1.0]), t(0.8)), d.Gamma(t(1.5), t(2.0))),
    "uniform pareto": lambda d, t: (d.Uniform(t([0.9, 0.1]), t(2.8)), d.Pareto(t(0.5), t(2.0))),
    "beta uniform": lambda d, t: (d.Beta(t(1.5), t(2.5)), d.Uniform(t([-0.5, 0.1]), t(2.0))),
    "pareto exponential": lambda d, t: (d.Pareto(t(0.5), t([0.5, 2.5])), d.Exponential(t(2.0))),
    "pareto gamma": lambda d, t: (d.Pareto(t(0.5), t([0.5, 2.5])), d.Gamma(t(2.0), t(1.0))),
    "pareto normal": lambda d, t: (d.Pareto(t(0.5), t([1.5, 2.5])), d.Normal(t(2.0), t(1.0))),
    "pareto pareto": lambda d, t: (d.Pareto(t([0.5, 2.0]), t(1.5)), d.Pareto(t(1.0), t(0.5))),
    "bernoulli ends": lambda d, t: (
        d.Bernoulli(t([0.0, 1.0, 0.5, 0.5])),
        d.Bernoulli(t([0.3, 0.3, 0.0, 1.0])),
    ),
    "categorical ends": lambda d, t: (
        d.Categorical(t([[0.0, 1.0], [0.5, 0.5]])),
        d.Categorical(t([[0.0, 1.0], [0.0, 1.0]])),
    ),
    "binomial more": lambda d, t: (d.Binomial(4, t([0.2, 0.5])), d.Binomial(3, t(0.6))),
    "chi2 gamma": lambda d, t: (d.Chi2(t([3.0, 0.5])), d.Gamma(t(1.2), t(0.4))),
    "log normal": lambda d, t: (d.LogNormal(t([3.0, 0.5]), t(1.0)), d.LogNormal(t(1.2), t(0.4))),
    "independent": lambda d, t: (
        d.Independent(d.Normal(t(ROWS), t(1.0)), 1),
        d.Independent(d.Normal(t(0.3), t(ROWS)), 1),
    ),
    "vectors, batches of p": lambda d, t: (
        d.MultivariateNormal(t(ROWS), t(COVARIANCE)),
        d.MultivariateNormal(t(ROWS[0]), t(numpy.eye(3))),
    ),
    "vectors of low rank and others": lambda d, t: (
        d.LowRankMultivariateNormal(t(ROWS[0]), t(FACTOR), t(ROWS[0])),
        d.MultivariateNormal(t(ROWS[1]), t(COVARIANCE)),
    ),
    "vectors, batches of q": lambda d, t: (
        d.MultivariateNormal(t(ROWS[0]), t(COVARIANCE)),
        d.LowRankMultivariateNormal(t(ROWS), t(FACTOR), t(ROWS)),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_divergences_at_the_edges_are_torchs(name):
    results = []
    for module in (pullback, torch):
        made = PAIRS[name](module.distributions, lambda v, m=module: m.tensor(v, dtype=m.float64))
        results.append([module.distributions.kl_divergence(*made)])
    assert_alike(*results)


@pytest.mark.parametrize(
    "make",
    [
        lambda d, t: (d.Normal(t(0.0), t(1.0)), d.Cauchy(t(0.0), t(1.0))),
        lambda d, t: (d.Poisson(t(1.0)), d.Normal(t(0.0), t(1.0))),
        lambda d, t: (d.Binomial(2, t(0.5)), d.Binomial(3, t(0.5))),
        lambda d, t: (d.LogNormal(t(0.0), t(1.0)), d.Kumaraswamy(t(1.0), t(1.0))),
        lambda d, t: (
            d.Independent(d.Normal(t([0.0]), t(1.0)), 1),
            d.Independent(d.Normal(t([0.0]), t(1.0)), 0),
        ),
    ],
)
def test_unknown_divergences_are_not_implemented_on_both_sides(make):
    for module in (pullback, torch):
        p, q = make(module.distributions, module.tensor)
        with pytest.raises(NotImplementedError):
            module.distributions.kl_divergence(p, q)


def test_exponential_families_have_the_divergence_of_bregman():
    """Through the generic rule, which is not the one registered for them."""
    d = pullback.distributions
    generic = d.kl._KL_REGISTRY[d.ExponentialFamily, d.ExponentialFamily]
    for name in ("Normal", "Gamma", "Exponential", "Bernoulli", "Poisson", "Beta", "Dirichlet"):
        p, _ = first(BY_NAME[name], pullback)
        q, _ = second(BY_NAME[name], pullback)
        expected = d.kl_divergence(p, q).detach()
        numpy.testing.assert_allclose(generic(p, q).detach(), expected, rtol=1e-9, err_msg=name)
