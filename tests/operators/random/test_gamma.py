"""Draws of gamma and Dirichlet variables: their derivatives are those of quantiles."""

import numpy
import pytest
from scipy import special

import pullback as torch

RNG = numpy.random.default_rng(3)
F64 = torch.float64


def central(function, at, width):
    """The derivative of a smooth function, to the fourth power of the width."""
    near = function(at + width) - function(at - width)
    far = function(at + 2 * width) - function(at - 2 * width)
    return (8 * near - far) / (12 * width)


@pytest.mark.parametrize("decade", [-2, -1, 0, 1, 2, 3])
def test_gamma_draws_move_as_their_quantiles(decade):
    concentration = 10.0 ** RNG.uniform(decade, decade + 1, 60)
    level = RNG.uniform(0.02, 0.98, 60)
    drawn = special.gammaincinv(concentration, level)
    usable = drawn > 1e-200
    a, level, drawn = concentration[usable], level[usable], drawn[usable]
    # In logarithms: quantiles of small concentrations span hundreds of decades.
    width = 2e-3 * numpy.minimum(a, numpy.sqrt(a) * a.clip(max=1))
    moved = central(lambda a: numpy.log(special.gammaincinv(a, level)), a, width) * drawn
    ours = torch._standard_gamma_grad(torch.tensor(a), torch.tensor(drawn))
    numpy.testing.assert_allclose(ours, moved, rtol=1e-6)


@pytest.mark.parametrize("pair", [(-1, -1), (-1, 1), (1, -1), (0, 0), (2, 0), (0, 2), (2, 2)])
def test_beta_draws_move_as_their_quantiles(pair):
    a, b = (10.0 ** RNG.uniform(decade, decade + 1, 60) for decade in pair)
    level = RNG.uniform(0.02, 0.98, 60)
    drawn = special.betaincinv(a, b, level)
    usable = (drawn > 1e-200) & (drawn < 1 - 1e-3)
    a, b, level, drawn = a[usable], b[usable], level[usable], drawn[usable]
    moved = central(lambda a: special.betaincinv(a, b, level), a, 1e-3 * a) / (1 - drawn)
    ours = torch._dirichlet_grad(*(torch.tensor(v) for v in (drawn, a, a + b)))
    numpy.testing.assert_allclose(ours, moved, rtol=1e-5)


def test_both_ways_of_computing_agree_where_they_meet():
    """Series and integrals are different formulas; at the border both are good to 12 digits."""
    from pullback.operators.arrays import gamma_paths

    a = numpy.linspace(0.3, 19.0, 40)
    x = numpy.exp(special.digamma(a)) * 1.02
    mean_log = special.digamma(a)
    by_series = gamma_paths._gamma_series(numpy, a, x, mean_log)
    by_integral = gamma_paths._gamma_above(numpy, a, x, mean_log)
    numpy.testing.assert_allclose(by_series, by_integral, rtol=1e-12)


def test_draws_have_the_moments_of_the_distribution():
    torch.manual_seed(0)
    drawn = torch._standard_gamma(torch.full((40000,), 2.5, dtype=F64))
    assert abs(float(drawn.mean()) - 2.5) < 0.05
    assert abs(float(drawn.var()) - 2.5) < 0.12
    shares = torch._sample_dirichlet(torch.tensor([1.0, 3.0], dtype=F64).expand(40000, 2))
    assert abs(float(shares[:, 0].mean()) - 0.25) < 0.01
    torch.testing.assert_close(shares.sum(-1), torch.ones(40000, dtype=F64))


@pytest.mark.parametrize("concentration", [0.05, 0.7, 1.0, 3.0, 400.0])
def test_draws_follow_the_distribution(concentration):
    """The largest distance of their cdf from the true one (Kolmogorov and Smirnov)."""
    torch.manual_seed(6)
    drawn = torch._standard_gamma(torch.full((20000,), concentration, dtype=F64)).sort().values
    levels = special.gammainc(concentration, drawn.numpy())
    assert numpy.abs(levels - (numpy.arange(20000) + 0.5) / 20000).max() < 0.012


def test_shares_of_tiny_concentrations_are_all_or_nothing():
    """Their gamma numbers are below what float64 holds, so only logarithms tell which is larger."""
    torch.manual_seed(6)
    shares = torch._sample_dirichlet(torch.full((1000, 2), 1e-4, dtype=F64))
    torch.testing.assert_close(shares.sum(-1), torch.ones(1000, dtype=F64))
    assert float(((shares > 0.01) & (shares < 0.99)).double().mean()) < 0.01
    assert 0.45 < float(shares[:, 0].mean()) < 0.55


def test_the_gradient_of_a_dirichlet_draw_keeps_its_sum():
    concentration = torch.tensor([0.5, 2.0, 30.0], dtype=F64, requires_grad=True)
    drawn = torch._sample_dirichlet(concentration)
    (gradient,) = torch.autograd.grad(drawn.sum(), concentration)
    assert float(gradient.abs().max()) < 1e-12


def test_expected_gradients_are_gradients_of_expectations():
    """The derivative of E[x**2] by each concentration, over many draws of a Dirichlet."""
    torch.manual_seed(1)
    concentration = torch.tensor([1.5, 0.7, 3.0], dtype=F64, requires_grad=True)
    drawn = torch._sample_dirichlet(concentration.expand(60000, 3))
    (ours,) = torch.autograd.grad(drawn[:, 0].square().mean(), concentration)
    total = concentration.sum()
    second = concentration[0] * (concentration[0] + 1) / (total * (total + 1))
    (exact,) = torch.autograd.grad(second, concentration)
    torch.testing.assert_close(ours, exact, rtol=0.05, atol=2e-3)


def test_forward_and_reverse_mode_agree():
    def draw(concentration):
        torch.manual_seed(4)
        return torch._sample_dirichlet(concentration)

    concentration = torch.tensor([1.5, 0.7, 3.0], dtype=F64)
    torch.testing.assert_close(
        torch.func.jacfwd(draw, randomness="same")(concentration),
        torch.func.jacrev(draw)(concentration),
    )


def test_vmap_draws_one_for_each_example_and_differentiates_it():
    rates = torch.rand(4, 3, dtype=F64) + 0.5
    gradient = torch.func.grad(lambda a: torch._standard_gamma(a).sum())
    torch.manual_seed(2)
    mapped = torch.vmap(gradient, randomness="different")(rates)
    torch.manual_seed(2)
    drawn = torch._standard_gamma(rates)
    torch.testing.assert_close(mapped, torch._standard_gamma_grad(rates, drawn))
    shares = torch.vmap(torch._sample_dirichlet, randomness="different")(rates)
    torch.testing.assert_close(shares.sum(-1), torch.ones(4, dtype=F64))


def test_second_derivatives_are_refused_with_a_reason():
    a = torch.tensor(1.5, requires_grad=True)
    (gradient,) = torch.autograd.grad(torch._standard_gamma(a), a, create_graph=True)
    with pytest.raises(NotImplementedError, match="detach"):
        gradient.backward()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, F64])
def test_draws_and_derivatives_keep_their_dtype(dtype):
    a = torch.tensor([0.5, 4.0], dtype=dtype, requires_grad=True)
    for draw in (torch._standard_gamma, torch._sample_dirichlet):
        drawn = draw(a)
        (gradient,) = torch.autograd.grad(drawn[0], a)
        assert drawn.dtype is gradient.dtype is dtype
        assert bool((drawn > 0).all())


def test_shapes_without_elements_and_dimensions():
    assert torch._standard_gamma(torch.ones(0, 3)).shape == (0, 3)
    assert torch._sample_dirichlet(torch.ones(0, 3)).shape == (0, 3)
    assert torch._standard_gamma(torch.tensor(2.0)).shape == ()
    assert torch._dirichlet_grad(torch.ones(0), torch.ones(0), torch.ones(0)).shape == (0,)


def test_derivatives_at_the_ends_are_finite():
    ends = torch.tensor([0.0, 1e-300, 0.5, 1.0 - 1e-16, 1.0], dtype=F64)
    for a in (1e-3, 0.5, 1.0, 50.0, 1e5):
        for b in (1e-3, 0.5, 1.0, 50.0, 1e5):
            paths = torch._dirichlet_grad(
                ends, torch.full((5,), a, dtype=F64), torch.full((5,), a + b, dtype=F64)
            )
            assert bool(paths.isfinite().all()), (a, b, paths)
    for a in (1e-3, 0.5, 1.0, 50.0, 1e6):
        x = torch.tensor([0.0, 1e-300, 1e-3, a, 10 * a + 50], dtype=F64)
        paths = torch._standard_gamma_grad(torch.full((5,), a, dtype=F64), x)
        assert bool(paths.isfinite().all()), (a, paths)


def test_dispatch_modes_see_torchs_names():
    from pullback.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    names = []
    a = torch.ones(2, requires_grad=True)
    with Seen():
        (torch._standard_gamma(a) * torch._sample_dirichlet(a)).sum().backward()
    wanted = ("_standard_gamma", "_standard_gamma_grad", "_sample_dirichlet", "_dirichlet_grad")
    assert {f"aten.{name}.default" for name in wanted} <= set(names)
