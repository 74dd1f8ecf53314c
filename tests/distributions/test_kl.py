"""Divergences: what they mean, and how one is chosen."""

import pytest

import pullback as torch
from pullback.distributions.kl import across

d = torch.distributions
F64 = torch.float64


def t(*values):
    return torch.tensor(values, dtype=F64)


PAIRS = [
    (d.Normal(t(0.0), t(1.0)), d.Normal(t(0.5), t(2.0))),
    (d.Normal(t(0.0), t(1.0)), d.Laplace(t(0.5), t(2.0))),
    (d.Normal(t(0.0), t(1.0)), d.Gumbel(t(0.5), t(2.0))),
    (d.Gamma(t(2.0), t(1.0)), d.Gamma(t(1.5), t(0.5))),
    (d.Gamma(t(2.0), t(1.0)), d.Gumbel(t(0.5), t(2.0))),
    (d.Beta(t(2.0), t(1.5)), d.Normal(t(0.5), t(1.0))),
    (d.Beta(t(2.0), t(1.5)), d.Gamma(t(1.5), t(2.0))),
    (d.Uniform(t(0.1), t(0.8)), d.Beta(t(2.0), t(1.5))),
    (d.Uniform(t(0.1), t(0.8)), d.Gumbel(t(0.5), t(2.0))),
    (d.Exponential(t(2.0)), d.Normal(t(0.5), t(1.0))),
    (d.ContinuousBernoulli(t(0.3)), d.Exponential(t(2.0))),
    (d.Dirichlet(t(1.0, 2.0)), d.Dirichlet(t(2.0, 1.5))),
    (d.Poisson(t(2.0)), d.Poisson(t(3.0))),
    (d.Geometric(t(0.3)), d.Geometric(t(0.5))),
    (d.Cauchy(t(0.0), t(1.0)), d.Cauchy(t(0.5), t(2.0))),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: "-".join(type(v).__name__ for v in pair))
def test_a_divergence_is_the_mean_difference_of_log_densities(pair):
    p, q = pair
    torch.manual_seed(1)
    drawn = p.sample((40000,))
    difference = p.log_prob(drawn) - q.log_prob(drawn)
    error = 5 * difference.std(0) / 200
    assert float((difference.mean(0) - d.kl_divergence(p, q)).abs()) < float(error)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: type(pair[0]).__name__)
def test_a_distribution_does_not_diverge_from_itself(pair):
    assert abs(float(d.kl_divergence(pair[0], pair[0]))) < 1e-12


@pytest.fixture
def registry():
    """As it was before, when the test is over."""
    known = dict(d.kl._KL_REGISTRY)
    yield
    d.kl._KL_REGISTRY.clear()
    d.kl._KL_REGISTRY.update(known)
    d.kl._KL_MEMOIZE.clear()


def test_the_nearest_classes_decide(registry):
    class Near(d.Normal):
        pass

    class Nearer(Near):
        pass

    p, q = Nearer(0.0, 1.0), Nearer(1.0, 1.0)
    assert float(d.kl_divergence(p, q)) == 0.5
    d.register_kl(Near, Near)(lambda p, q: "near")
    assert d.kl_divergence(p, q) == "near"
    d.register_kl(Nearer, Nearer)(lambda p, q: "nearer")
    assert d.kl_divergence(p, q) == "nearer"


def test_two_equally_near_choices_are_told(registry):
    class Left(d.Normal):
        pass

    d.register_kl(Left, d.Normal)(lambda p, q: "left")
    d.register_kl(d.Normal, Left)(lambda p, q: "right")
    with pytest.warns(RuntimeWarning, match="could be"):
        assert d.kl_divergence(Left(0.0, 1.0), Left(0.0, 1.0)) == "left"


def test_a_base_class_that_is_no_distribution_may_be_registered():
    class Mixin:
        pass

    class Mixed(Mixin, d.Normal):
        pass

    d.register_kl(Mixed, Mixin)(lambda p, q: "mixed")
    assert d.kl_divergence(Mixed(0.0, 1.0), Mixed(0.0, 1.0)) == "mixed"


def test_only_classes_of_distributions_are_registered():
    for given in ((5, d.Normal), (d.Normal, 5)):
        with pytest.raises(TypeError, match="classes of distributions"):
            d.register_kl(*given)


def test_what_is_not_known_is_said_with_names():
    with pytest.raises(NotImplementedError, match="Normal from Cauchy"):
        d.kl_divergence(d.Normal(0.0, 1.0), d.Cauchy(0.0, 1.0))


def test_parameters_of_other_shapes_than_events_are_summed_over_no_batch():
    df = torch.tensor([3.0, 5.0], dtype=F64)
    scales = torch.stack([torch.eye(2, dtype=F64), 2 * torch.eye(2, dtype=F64)])
    p, q = d.Wishart(df, scales), d.Wishart(df + 1, scales.flip(0))
    together = d.kl_divergence(p, q)
    for i in range(2):
        alone = d.kl_divergence(d.Wishart(df[i], scales[i]), d.Wishart(df[i] + 1, scales[1 - i]))
        assert alone > 0
        torch.testing.assert_close(together[i], alone)
    assert d.kl_divergence(p, p).abs().max() < 1e-12


# Parameters of p: infinite, finite, infinite.
PARTLY_INFINITE = {
    ("Pareto", "Exponential"): ([1.0, 2.0, 1.0], [0.5, 3.0, 1.0]),
    ("Pareto", "Gamma"): ([1.0, 2.0, 1.0], [0.5, 3.0, 1.0]),
    ("Pareto", "Normal"): ([1.0, 2.0, 1.0], [0.5, 3.0, 2.0]),
    ("Uniform", "Beta"): ([-0.5, 0.2, -0.1], [1.5, 0.9, 0.4]),
    ("Uniform", "ContinuousBernoulli"): ([-0.5, 0.2, -0.1], [1.5, 0.9, 0.4]),
    ("Uniform", "Exponential"): ([-0.5, 0.2, -1.0], [1.5, 0.9, 0.0]),
    ("Uniform", "Gamma"): ([-0.5, 0.2, -1.0], [1.5, 0.9, 0.0]),
    ("Uniform", "Pareto"): ([-0.5, 0.2, -1.0], [1.5, 0.9, 0.0]),
}
OTHERS = {
    "Exponential": (1.3,),
    "ContinuousBernoulli": (0.3,),
    "Pareto": (0.1, 0.4),
}


def test_every_pair_with_an_infinite_part_is_here():
    names = {(p.__name__, q.__name__) for p, q in across.IMPOSSIBLE if p in across.HARMLESS}
    assert names == set(PARTLY_INFINITE)


@pytest.mark.parametrize("pair", PARTLY_INFINITE, ids="-".join)
def test_an_infinite_divergence_has_no_slope_and_leaves_others_theirs(pair):
    """Its neighbours share parameters of q: infinity times 0 would make them all NaN."""
    kinds = [getattr(torch.distributions, name) for name in pair]

    def slopes(rows):
        mine = [torch.tensor(x, dtype=torch.float64)[rows] for x in PARTLY_INFINITE[pair]]
        others = [torch.tensor(x, dtype=torch.float64) for x in OTHERS.get(pair[1], (1.3, 0.4))]
        leaves = [x.requires_grad_() for x in (*mine, *others)]
        p, q = kinds[0](*leaves[:2]), kinds[1](*leaves[2:])
        value = torch.distributions.kl_divergence(p, q)
        grads = torch.autograd.grad(value.sum(), leaves)
        return value, grads

    value, grads = slopes([0, 1, 2])
    alone, expected = slopes([1])
    assert value[::2].isposinf().all()
    torch.testing.assert_close(value[1:2], alone)
    for number, (g, e) in enumerate(zip(grads, expected, strict=True)):
        if number < 2:
            assert (g[::2] == 0).all()
            g = g[1:2]
        torch.testing.assert_close(g, e)
