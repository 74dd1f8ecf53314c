"""What must hold for every distribution: densities integrate to 1, draws follow them, and so on."""

import warnings

import numpy
import pytest

import pullback as torch
from tests.distributions.cases import ALL, CONTINUOUS, DISCRETE, VECTORS, instance, named

d = torch.distributions
F64 = torch.float64


def grid(made, points=20001):
    """Points and weights over the support of each number of a batch (points, batch)."""
    support = made.support
    low = getattr(support, "lower_bound", -numpy.inf)
    high = getattr(support, "upper_bound", numpy.inf)
    if isinstance(made, d.VonMises):
        low, high = -numpy.pi, numpy.pi
    if isinstance(made, d.TransformedDistribution) and type(made) is d.TransformedDistribution:
        high = 0.5  # what the transforms of the case can give
    shape = made.batch_shape or (1,)
    low, high = (numpy.broadcast_to(_plain(v), shape) for v in (low, high))
    # x = x(t) for t in (-1, 1): the ends, where densities may be infinite, are approached doubly
    # exponentially.
    t = numpy.linspace(-4.0, 4.0, points)[:, None]
    with numpy.errstate(over="ignore", invalid="ignore"):
        inner = numpy.sinh(t) * (numpy.pi / 2)
        unit, slope = 1 / (1 + numpy.exp(-2 * inner)), numpy.pi / 2 * numpy.cosh(t)
        narrow = low + (high - low) * unit, (high - low) * 2 * unit * (1 - unit) * slope
        above = low + numpy.exp(inner), numpy.exp(inner) * slope
        below = high - numpy.exp(inner), numpy.exp(inner) * slope
        line = numpy.sinh(inner), numpy.cosh(inner) * slope
    bounded_low, bounded_high = numpy.isfinite(low), numpy.isfinite(high)
    kinds = [bounded_low & bounded_high, bounded_low, bounded_high]
    x, weight = (numpy.select(kinds, [narrow[i], above[i], below[i]], line[i]) for i in range(2))
    return x, weight * (t[1, 0] - t[0, 0])


def _plain(value):
    return value.detach().numpy() if isinstance(value, torch.Tensor) else value


def density(case):
    """Points, weights and densities; points that rounding put on an end are left out."""
    made, _ = instance(torch, case, validate_args=False)
    made._validate_args = False
    for part in vars(made).values():
        if isinstance(part, d.Distribution):
            part._validate_args = False
    x, weight = grid(made)
    with torch.no_grad():
        log_p = made.log_prob(torch.tensor(x)).numpy()
    inside = numpy.isfinite(log_p) & numpy.isfinite(weight)
    p = numpy.where(inside, numpy.exp(numpy.where(inside, log_p, 0.0)), 0.0)
    return made, numpy.where(inside, x, 0.0), numpy.where(inside, weight, 0.0), p, log_p, inside


@pytest.mark.parametrize("case", CONTINUOUS, ids=named(CONTINUOUS))
def test_densities_integrate_to_1_and_give_mean_and_entropy(case):
    made, x, weight, p, log_p, inside = density(case)
    numpy.testing.assert_allclose((p * weight).sum(0), 1.0, rtol=2e-5)
    try:
        entropy = made.entropy().detach().numpy()
    except NotImplementedError:
        entropy = None
    if entropy is not None:
        terms = -p * numpy.where(inside, log_p, 0.0) * weight
        numpy.testing.assert_allclose(terms.sum(0), entropy, rtol=1e-4, atol=1e-4)
    try:
        mean = made.mean.detach().numpy()
    except NotImplementedError:
        return
    if "Cauchy" in case.name or case.name == "VonMises":
        return  # no mean; a mean of directions
    numpy.testing.assert_allclose((p * x * weight).sum(0), mean, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("case", DISCRETE, ids=named(DISCRETE))
def test_probabilities_sum_to_1_and_give_mean_and_variance(case):
    made, _ = instance(torch, case)
    if made.event_shape:
        if not made.has_enumerate_support:
            return  # Multinomial: see below
        values = made.enumerate_support()
    elif made.has_enumerate_support:
        values = made.enumerate_support()
    else:
        values = torch.arange(400, dtype=F64)[:, None].expand(400, *made.batch_shape)
    probabilities = made.log_prob(values).exp()
    torch.testing.assert_close(probabilities.sum(0), torch.ones(made.batch_shape, dtype=F64))
    if case.name.startswith("Categorical"):
        return  # no mean
    weights = probabilities.reshape((*probabilities.shape, *(1,) * len(made.event_shape)))
    mean = (weights * values).sum(0)
    torch.testing.assert_close(mean, made.mean)
    torch.testing.assert_close((weights * (values - mean) ** 2).sum(0), made.variance)


def test_multinomial_sums_to_1_over_all_counts():
    made = d.Multinomial(3, torch.tensor([0.2, 0.5, 0.3], dtype=F64))
    counts = [[i, j, 3 - i - j] for i in range(4) for j in range(4 - i)]
    log_p = made.log_prob(torch.tensor(counts, dtype=F64))
    assert abs(float(log_p.exp().sum()) - 1) < 1e-12
    assert abs(float(-(log_p.exp() * log_p).sum() - made.entropy())) < 1e-12


@pytest.mark.parametrize("case", CONTINUOUS, ids=named(CONTINUOUS))
def test_the_cdf_rises_as_the_density_says_and_icdf_undoes_it(case):
    made, _ = instance(torch, case)
    value = torch.tensor(case.value, requires_grad=True)
    try:
        below = made.cdf(value)
    except NotImplementedError:
        return
    (slope,) = torch.autograd.grad(below.sum(), value)
    rough = 1e-3 if case.name == "ContinuousBernoulli" else 1e-7  # flat where it is nearly uniform
    torch.testing.assert_close(slope, made.log_prob(value).exp().detach(), rtol=rough, atol=1e-9)
    assert bool(((below > 0) & (below < 1)).all())
    try:
        back = made.icdf(below)
    except NotImplementedError:
        return
    torch.testing.assert_close(back, value)


ROUGH = {"Cauchy", "HalfCauchy"}
LIGHT = [case for case in ALL if case.name not in ROUGH]


@pytest.mark.parametrize("case", LIGHT, ids=named(LIGHT))
def test_draws_lie_in_the_support_and_have_mean_and_variance(case):
    made, _ = instance(torch, case)
    torch.manual_seed(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = made.sample((4000,))
    assert not drawn.requires_grad
    assert tuple(drawn.shape) == (4000, *made.batch_shape, *made.event_shape)
    assert bool(made.support.check(drawn).all())
    try:
        mean, spread = made.mean.detach(), made.stddev.detach()
    except NotImplementedError:
        return
    if case.name.startswith("Categorical") or case.name == "VonMises":
        return  # no mean; a mean of directions
    error = (drawn.double().mean(0) - mean).abs() / spread
    assert float(error.max()) < 5 / 4000**0.5
    if case.name in ("StudentT", "FisherSnedecor", "Pareto", "InverseGamma"):
        return  # so heavy a tail that the variance of draws converges slowly
    ratio = drawn.double().std(0) / spread
    assert float((ratio - 1).abs().max()) < 0.12


def test_von_mises_draws_have_mean_direction_and_variance():
    torch.manual_seed(4)
    made = d.VonMises(torch.tensor([0.3, -3.0]), torch.tensor([1e-6, 4.0]))
    drawn = made.sample((20000,)).double()
    assert bool((drawn.abs() <= numpy.pi + 1e-6).all())
    x, y = drawn.cos().mean(0), drawn.sin().mean(0)
    length = (x**2 + y**2).sqrt()
    torch.testing.assert_close(1 - length, made.variance.double(), rtol=0, atol=0.02)
    assert abs(float(torch.atan2(y, x)[1]) + 3.0) < 0.02


@pytest.mark.parametrize("case", [c for c in ALL if not c.discrete], ids=lambda c: c.name)
def test_rsample_has_the_gradient_of_expectations(case):
    """The mean of draws moves with the parameters as the mean of the distribution does."""
    made, params = instance(torch, case)
    if not made.has_rsample or case.name in ("Cauchy", "HalfCauchy"):
        return
    if case.name in ("GeneralizedPareto exponential", "ContinuousBernoulli"):
        return  # at a limit, concentration 0 or probability 1/2, draws do not move with it
    torch.manual_seed(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = made.rsample((4000,))
    assert drawn.requires_grad
    gradients = torch.autograd.grad(drawn.mean(0).sum(), params, None, True, allow_unused=True)
    try:
        mean = made.mean
    except NotImplementedError:
        assert all(g is None or bool(g.isfinite().all()) for g in gradients)
        return
    exact = torch.autograd.grad(mean.sum(), params, allow_unused=True)
    for ours, wanted in zip(gradients, exact, strict=True):
        if ours is None or wanted is None:
            given = wanted if ours is None else ours
            assert given is None or float(given.abs().max()) < 0.3
            continue
        scale = 1 + float(wanted.abs().max())
        assert float((ours - wanted).abs().max()) < 0.2 * scale


ICDF = ["Normal", "Laplace", "Cauchy", "Uniform", "Exponential", "Gumbel", "Weibull", "Pareto"]
ICDF += ["HalfNormal", "LogNormal", "Kumaraswamy", "GeneralizedPareto", "ContinuousBernoulli"]


@pytest.mark.parametrize("name", ICDF)
def test_rsample_moves_as_quantiles_do(name):
    """At a fixed level of the cdf, draws and quantiles have the same derivative."""
    case = next(c for c in CONTINUOUS if c.name == name)
    made, params = instance(torch, case)
    torch.manual_seed(9)
    drawn = made.rsample()
    with torch.no_grad():
        level = made.cdf(drawn)
    ours = torch.autograd.grad(drawn.sum(), params, retain_graph=True)
    quantiles = torch.autograd.grad(made.icdf(level).sum(), params)
    for one, other in zip(ours, quantiles, strict=True):
        if name == "HalfNormal":
            one = one.abs()  # the draw may have come from the other half, and is then as large
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)


def test_the_mode_of_kumaraswamy_is_where_its_density_is_highest():
    made = d.Kumaraswamy(torch.tensor([2.0, 1.5], dtype=F64), torch.tensor([2.0, 4.0], dtype=F64))
    mode = made.mode.requires_grad_()
    (slope,) = torch.autograd.grad(made.log_prob(mode).sum(), mode)
    assert float(slope.abs().max()) < 1e-9
    assert made.mode.isnan().tolist() == [False, False]
    assert d.Kumaraswamy(0.5, 0.5).mode.isnan()


@pytest.mark.parametrize("case", VECTORS, ids=named(VECTORS))
def test_vectors_with_equal_densities_agree(case):
    made, _ = instance(torch, case)
    value = torch.tensor(case.value)
    if isinstance(made, d.MultivariateNormal):
        others = [
            d.MultivariateNormal(made.loc, covariance_matrix=made.covariance_matrix),
            d.MultivariateNormal(made.loc, precision_matrix=made.precision_matrix),
            d.MultivariateNormal(made.loc, scale_tril=made.scale_tril),
        ]
    elif isinstance(made, d.LowRankMultivariateNormal):
        others = [
            d.MultivariateNormal(made.loc, made.covariance_matrix),
            d.MultivariateNormal(made.loc, precision_matrix=made.precision_matrix),
            d.MultivariateNormal(made.loc, scale_tril=made.scale_tril),
        ]
    else:
        return
    for other in others:
        torch.testing.assert_close(other.log_prob(value), made.log_prob(value))
        torch.testing.assert_close(other.entropy(), made.entropy())
        torch.testing.assert_close(other.variance, made.variance)


INSIDE = {
    "Beta": lambda p: d.Beta(p, p),
    "Beta to 1": lambda p: d.Beta(torch.ones_like(p), p),
    "Dirichlet": lambda p: d.Dirichlet(torch.stack([p, p, p], -1)),
    "LogisticNormal": lambda p: d.LogisticNormal(
        torch.stack([1 / p, -1 / p], -1).clamp(-80, 80), torch.ones(2, dtype=p.dtype)
    ),
    "ContinuousBernoulli": lambda p: d.ContinuousBernoulli(logits=1 / p),
    "ContinuousBernoulli to 0": lambda p: d.ContinuousBernoulli(logits=-1 / p),
    "RelaxedBernoulli": lambda p: d.RelaxedBernoulli(
        torch.ones_like(p[0]), logits=(1 / p).clamp(max=20)
    ),
    "NegativeBinomial": lambda p: d.NegativeBinomial(p, torch.full_like(p, 0.5)),
    "NegativeBinomial of none": lambda p: d.NegativeBinomial(p * 0, torch.full_like(p, 0.5)),
    "Poisson": lambda p: d.Poisson(p * 1e-16),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", INSIDE)
def test_draws_at_extreme_parameters_have_a_density(name, dtype):
    torch.manual_seed(0)
    made = INSIDE[name](torch.tensor([0.005, 0.05, 0.5], dtype=dtype))
    drawn = made.sample((500,))
    assert made.support.check(drawn).all()
    assert made.log_prob(drawn).isfinite().all()


def test_counts_at_rates_beyond_all_counts_are_the_rate():
    rates = torch.tensor([1e300, float("inf")], dtype=F64)
    assert torch.poisson(rates).tolist() == rates.tolist()
    few = torch.poisson(torch.full((100,), 1e19, dtype=F64))
    assert (few / 1e19 - 1).abs().max() < 1e-8


def test_probabilities_of_large_logits_are_clamped_as_given_ones():
    by_logits = d.ContinuousBernoulli(logits=torch.tensor([-200.0, 200.0]))
    given = d.ContinuousBernoulli(probs=torch.tensor([0.0, 1.0]))
    for name in ("mean", "variance", "probs"):
        assert torch.equal(getattr(by_logits, name), getattr(given, name))
    ends = torch.tensor([0.0, 1.0])
    torch.testing.assert_close(by_logits.log_prob(ends), given.log_prob(ends))
