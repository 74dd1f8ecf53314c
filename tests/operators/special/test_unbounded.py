"""The time of a special function does not depend on how large its argument is."""

import math
import time

import pytest

import pullback as torch
from pullback import special

FAR = [-1e6 - 0.5, -1e12 - 0.5, -1e15 - 0.5, 1e12, 1e300, -2.5]


def seconds(run):
    start = time.process_time()
    run()
    return time.process_time() - start


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.polygamma(1, x),
        lambda x: torch.polygamma(4, x),
        torch.digamma,
        torch.lgamma,
        lambda x: special.zeta(torch.full_like(x, 3.0), x),
        lambda x: torch.igamma(x.abs(), x.abs() * 1.1),
        lambda x: torch.igammac(x.abs(), x.abs() * 0.9),
        special.bessel_j0,
        special.bessel_y1,
        special.i0e,
        special.airy_ai,
        torch.special.erfcx,
        torch.special.ndtri,
        torch.sinc,
        lambda x: torch.polygamma(100_000, x),
        lambda x: special.hermite_polynomial_h(x, torch.full_like(x, 1e15)),
        lambda x: special.hermite_polynomial_he(x, torch.full_like(x, 1e15)),
    ],
)
def test_far_arguments_take_no_longer_than_near_ones(function):
    x = torch.tensor(FAR, dtype=torch.float64)
    function(x[-1:])  # written and loaded
    assert seconds(lambda: function(x)) < 0.5


def test_polygamma_of_negative_arguments_by_reflection():
    x = torch.tensor([-0.5, -2.5, -1e6 - 0.25, -3.75], dtype=torch.float64)
    for n in range(1, 5):
        near = sum(math.factorial(n) * (-1) ** (n + 1) / (x + k) ** (n + 1) for k in range(5))
        # One step of the recurrence: psi_n(x) = psi_n(x + 1) - (-1)^n n! / x^(n + 1).
        stepped = torch.polygamma(n, x + 5) + near
        assert torch.allclose(torch.polygamma(n, x), stepped, rtol=1e-9)
    assert torch.polygamma(1, torch.tensor(-1e6 - 0.5)).item() == pytest.approx(math.pi**2, 1e-5)


def test_gradients_there_are_right():
    x = torch.tensor([-0.5, -2.25, -7.75], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: torch.polygamma(2, t), (x,))
    assert torch.autograd.gradcheck(lambda t: special.zeta(4.0, t), (x,))
