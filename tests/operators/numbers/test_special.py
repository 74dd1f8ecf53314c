"""Functions of numbers that need more of a type than arithmetic: polygamma, Bessel, directions."""

import math

import pytest

import pullback as torch
from pullback.autograd.numbers import register_numbers

mpmath = pytest.importorskip("mpmath")


@pytest.fixture
def digits():
    before, mpmath.mp.dps = mpmath.mp.dps, 60
    yield mpmath.mpf(10) ** -55
    mpmath.mp.dps = before


def derivatives(function, x, order):
    made = []
    value = function(x)
    for _ in range(order):
        (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
        made.append(value.item())
    return made


def test_lgamma_has_all_derivatives(digits):
    x = torch.tensor(["1.3"], dtype=mpmath.mpf, requires_grad=True)
    for n, found in enumerate(derivatives(torch.lgamma, x, 4)):
        assert abs(found - mpmath.psi(n, x.item())) < digits
    assert torch.polygamma(3, x).item() == mpmath.psi(3, x.item())


def test_bessel_functions_have_all_derivatives(digits):
    x = torch.tensor(["0.7"], dtype=mpmath.mpf, requires_grad=True)
    for n, found in enumerate(derivatives(torch.i0, x, 3), 1):
        assert abs(found - mpmath.besseli(0, x.item(), n)) < digits
    assert derivatives(torch.i0, torch.zeros(1, dtype=mpmath.mpf, requires_grad=True), 2)[1] == 0.5


def test_formulas_have_polygamma():
    sympy = pytest.importorskip("sympy")
    q = sympy.Symbol("q", positive=True)
    x = torch.tensor([q], requires_grad=True)
    assert derivatives(torch.lgamma, x, 2) == [sympy.digamma(q), sympy.polygamma(1, q)]


class Wrapped:
    """A float of the user's, without a method of complex numbers."""

    def __init__(self, value):
        self.value = float(getattr(value, "value", value))

    def __add__(self, other):
        return Wrapped(self.value + Wrapped(other).value)

    def __sub__(self, other):
        return Wrapped(self.value - Wrapped(other).value)

    def __mul__(self, other):
        return Wrapped(self.value * Wrapped(other).value)

    def __truediv__(self, other):
        return Wrapped(self.value / Wrapped(other).value)

    def __lt__(self, other):
        return self.value < Wrapped(other).value

    def __gt__(self, other):
        return self.value > Wrapped(other).value

    def __le__(self, other):
        return self.value <= Wrapped(other).value

    def __ge__(self, other):
        return self.value >= Wrapped(other).value

    def __eq__(self, other):
        return self.value == Wrapped(other).value

    def __hash__(self):
        return hash(self.value)


def test_products_ask_for_no_method_of_complex_numbers():
    register_numbers(Wrapped, exp=lambda x: Wrapped(math.exp(x.value)))
    values = [0.3, 1.0, -0.5]
    x = torch.tensor([Wrapped(one) for one in values], requires_grad=True)
    torch.softmax(x, 0)[0].backward()
    y = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    torch.softmax(y, 0)[0].backward()
    assert [one.value for one in x.grad.tolist()] == pytest.approx(y.grad.tolist())
    rows = torch.stack([x, x]).detach()
    products = torch.linalg.vecdot(rows, rows)
    assert [one.value for one in products.tolist()] == pytest.approx([1.34, 1.34])


def test_balls_have_polygamma_and_complex_ones_a_direction():
    flint = pytest.importorskip("flint")
    x = torch.tensor([flint.arb("1.3")], requires_grad=True)
    for n, found in enumerate(derivatives(torch.lgamma, x, 3)):
        assert abs(float(found.mid()) - float(mpmath.psi(n, 1.3))) < 1e-12
    torch.softmax(x, 0).sum().backward()
    assert x.grad.item().contains(0)
    z = torch.tensor([flint.acb(3, 4)], requires_grad=True)
    z.abs().sum().backward()
    assert z.grad.item().overlaps(flint.acb(3, 4) / 5)
    assert (z == flint.acb(3, 4)).tolist() == [True]
    assert (z != z.detach() * 2).tolist() == [True]
    wide = torch.tensor([flint.acb("1 +/- 2")])
    with pytest.raises(RuntimeError, match="decided"):
        _ = wide == flint.acb(1)
