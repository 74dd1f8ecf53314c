"""Special functions: digits against SciPy, poles and limits, and what happens without SciPy."""

import importlib
import math
import re
import time

import numpy
import pytest

import pullback as torch
from pullback.operators.arrays import scipy_special
from pullback.operators.special import functions

by_scipy = pytest.importorskip("scipy.special")

inf, nan = math.inf, math.nan

WIDE = numpy.concatenate([numpy.linspace(-25, 25, 2001), numpy.geomspace(1e-12, 20, 500)])
POSITIVE = numpy.concatenate([numpy.linspace(0.01, 12, 2001), numpy.geomspace(1e-9, 1e9, 500)])
NEGATIVE = -numpy.linspace(0.013, 9.97, 700)
UNIT = numpy.concatenate([numpy.linspace(-0.999, 0.999, 999), 1 - numpy.geomspace(1e-15, 0.1, 99)])
CHANCES = numpy.concatenate([numpy.linspace(0.001, 0.999, 999), numpy.geomspace(1e-200, 0.1, 99)])

# Name, SciPy's function, arguments.
AGAINST_SCIPY = [
    ("erf", "erf", WIDE),
    ("erfc", "erfc", WIDE),
    ("erfcx", "erfcx", WIDE),
    ("erfinv", "erfinv", UNIT),
    ("ndtr", "ndtr", WIDE),
    ("ndtri", "ndtri", CHANCES),
    ("log_ndtr", "log_ndtr", WIDE),
    ("gammaln", "gammaln", POSITIVE),
    ("gammaln", "gammaln", NEGATIVE),
    ("digamma", "digamma", POSITIVE),
    ("digamma", "digamma", NEGATIVE),
    ("i0", "i0", WIDE),
    ("i0e", "i0e", WIDE),
    ("i1", "i1", WIDE),
    ("i1e", "i1e", WIDE),
    ("entr", "entr", WIDE),
    ("bessel_j0", "j0", WIDE),
    ("bessel_j1", "j1", WIDE),
    ("bessel_y0", "y0", POSITIVE),
    ("bessel_y1", "y1", POSITIVE),
    ("modified_bessel_k0", "k0", POSITIVE),
    ("modified_bessel_k1", "k1", POSITIVE),
    ("scaled_modified_bessel_k0", "k0e", POSITIVE),
    ("scaled_modified_bessel_k1", "k1e", POSITIVE),
]


@pytest.fixture(params=["with SciPy", "without"])
def scipy_or_not(request, monkeypatch):
    if request.param == "without":
        monkeypatch.setattr(scipy_special, "_imported", lambda name: None)
    return request.param


NEED_SCIPY = re.compile(r"bessel_[jy]|bessel_k")


@pytest.mark.parametrize(("name", "other", "x"), AGAINST_SCIPY)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_have_their_digits(name, other, x, dtype, scipy_or_not):
    if scipy_or_not == "without" and NEED_SCIPY.search(name):
        pytest.skip("needs SciPy")
    x = x.astype(dtype)
    got = getattr(torch.special, name)(torch.from_numpy(x)).numpy()
    assert got.dtype == dtype
    with numpy.errstate(over="ignore"):
        expected = getattr(by_scipy, other)(x.astype(float)).astype(dtype)
    tolerance = 2e-13 if dtype == "float64" else 2e-6
    numpy.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance / 10)


def test_polygamma_and_zeta_have_their_digits():
    x = numpy.linspace(0.1, 30, 301)
    for n in range(5):
        got = torch.polygamma(n, torch.from_numpy(x)).numpy()
        numpy.testing.assert_allclose(got, by_scipy.polygamma(n, x), rtol=1e-12)
    s = numpy.linspace(1.1, 20, 301)
    got = torch.special.zeta(torch.from_numpy(s), torch.from_numpy(x)).numpy()
    numpy.testing.assert_allclose(got, by_scipy.zeta(s, x), rtol=1e-12)


def test_large_arrays_are_computed_in_blocks_with_the_same_result():
    x = numpy.random.default_rng(0).uniform(0.1, 9, 70_000)
    whole = torch.lgamma(torch.from_numpy(x)).numpy()
    numpy.testing.assert_array_equal(whole[-100:], torch.lgamma(torch.from_numpy(x[-100:])).numpy())


LIMITS = [
    ("gammaln", [0.0, -1.0, inf, -inf, nan, 1.0, 2.0], [inf, inf, inf, inf, nan, 0, 0]),
    ("digamma", [0.0, -0.0, -1.0, inf, nan], [-inf, inf, nan, inf, nan]),
    ("erfinv", [1.0, -1.0, 0.0, 1.5, nan], [inf, -inf, 0, nan, nan]),
    ("ndtri", [0.0, 1.0, 0.5, -1.0], [-inf, inf, 0, nan]),
    ("erfcx", [inf, -inf, 0.0], [0, inf, 1]),
    ("log_ndtr", [inf, -inf], [0, -inf]),
    ("entr", [0.0, -1.0, nan], [0, -inf, nan]),
    ("spherical_bessel_j0", [0.0, inf], [1, 0]),
]


@pytest.mark.parametrize(("name", "x", "expected"), LIMITS)
def test_poles_and_limits(name, x, expected):
    got = getattr(torch.special, name)(torch.tensor(x, dtype=torch.float64))
    numpy.testing.assert_array_equal(got.numpy(), expected)


def test_polynomials_follow_their_closed_forms():
    x = torch.linspace(-0.9, 0.9, 7, dtype=torch.float64)
    special, angle = torch.special, x.acos()
    for n in range(6):
        numpy.testing.assert_allclose(
            special.chebyshev_polynomial_t(x, n).numpy(), (angle * n).cos().numpy(), atol=1e-12
        )
        sines = (angle * (n + 1)).sin() / angle.sin()
        numpy.testing.assert_allclose(
            special.chebyshev_polynomial_u(x, n).numpy(), sines.numpy(), atol=1e-12
        )
        for name, other in (
            ("hermite_polynomial_h", "eval_hermite"),
            ("hermite_polynomial_he", "eval_hermitenorm"),
            ("laguerre_polynomial_l", "eval_laguerre"),
            ("legendre_polynomial_p", "eval_legendre"),
        ):
            expected = getattr(by_scipy, other)(n, x.numpy())
            numpy.testing.assert_allclose(
                getattr(special, name)(x, n).numpy(), expected, atol=1e-12
            )


def test_degree_of_a_polynomial_may_be_a_tensor():
    n = torch.tensor([-1, 0, 1, 2])
    got = torch.special.chebyshev_polynomial_t(0.5, n)
    assert got.tolist() == [0, 1, 0.5, -0.5]


def test_multivariate_gamma_is_a_sum_of_gammas():
    x = torch.tensor([3.0, 4.5], dtype=torch.float64, requires_grad=True)
    got = torch.mvlgamma(x, 3)
    expected = by_scipy.multigammaln(3.0, 3), by_scipy.multigammaln(4.5, 3)
    numpy.testing.assert_allclose(got.detach().numpy(), expected)
    with pytest.raises(RuntimeError, match="p=0"):
        torch.mvlgamma(x, 0)


def test_incomplete_gamma_differentiates_by_its_argument_only():
    a = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
    x = torch.tensor([1.5], dtype=torch.float64, requires_grad=True)
    y = torch.igamma(a.detach(), x)
    assert torch.autograd.grad(y, x)[0].item() == pytest.approx(1.5 * math.exp(-1.5))
    with pytest.raises(NotImplementedError, match="igamma"):
        torch.autograd.grad(torch.igamma(a, x), a)


def test_without_scipy_the_error_names_the_extra(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    monkeypatch.setattr(scipy_special, "_imported", scipy_special._imported.__wrapped__)
    with pytest.raises(ImportError, match=r"pullback\[full\]"):
        torch.special.bessel_j0(torch.ones(2))


@pytest.mark.parametrize("function", [torch.lgamma, torch.special.gammaln])
def test_log_gamma_knows_what_scipy_does_not(function, scipy_or_not):
    x = torch.tensor([-inf, inf, 0.0, -2.0, 1e-310], dtype=torch.float64)
    assert function(x).tolist() == [inf, inf, inf, inf, pytest.approx(713.8013788)]


def test_inverse_erf_keeps_the_sign_of_zero(scipy_or_not):
    assert torch.signbit(torch.erfinv(torch.tensor([0.0, -0.0]))).tolist() == [False, True]


def test_derivatives_of_erf_and_gamma_close_the_circle():
    x = torch.tensor([0.3, 1.2], dtype=torch.float64, requires_grad=True)
    for function, derivative in (
        (torch.lgamma, torch.digamma),
        (torch.digamma, lambda x: torch.polygamma(1, x)),
        (torch.special.i0, torch.special.i1),
        (torch.special.ndtr, lambda x: (-x * x / 2).exp() / math.sqrt(2 * math.pi)),
    ):
        (got,) = torch.autograd.grad(function(x).sum(), x)
        numpy.testing.assert_allclose(got.numpy(), derivative(x).detach().numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ["i1", "i1e"])
def test_the_curvature_of_bessel_functions_at_zero_is_a_number(name):
    x = torch.tensor([0.0, -0.0, 1e-4], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(getattr(torch.special, name)(x).sum(), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), x)
    numpy.testing.assert_allclose(slope.detach().numpy()[:2], 0.5)
    assert numpy.isfinite(curvature.numpy()).all()


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_polygamma_by_scipy_is_that_of_our_own_way(n, monkeypatch):
    values = [-7.3, -2.0, -0.5, 0.0, 1e-8, 0.1, 0.5, 1.0, 2.3, 30.0, 1e10, math.inf, -math.inf]
    x = torch.tensor([*values, math.nan], dtype=torch.float64)
    found = [torch.polygamma(n, x), torch.polygamma(n, x[5])]
    monkeypatch.setattr(functions, "scipy_special", lambda xp: None)
    for one, own in zip(found, [torch.polygamma(n, x), torch.polygamma(n, x[5])], strict=True):
        numpy.testing.assert_allclose(one.numpy(), own.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ["legendre_polynomial_p", "laguerre_polynomial_l"])
def test_degrees_without_a_closed_form_are_refused_before_their_steps_are_taken(name):
    """Issue 15, item 5: a million steps were, and then came the error."""
    began = time.process_time()
    with pytest.raises(RuntimeError, match="degrees up to"):
        getattr(torch.special, name)(torch.tensor([0.5]), torch.tensor([2.0**45]))
    assert time.process_time() - began < 1.5
    assert torch.special.hermite_polynomial_h(torch.tensor([0.5]), torch.tensor(2.0**45)).isnan()
