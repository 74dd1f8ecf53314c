"""Views of numbers look at the same elements, so what is written to them has its gradient."""

from fractions import Fraction

import numpy
import pytest

import pullback as torch

sympy = pytest.importorskip("sympy")
KINDS = {Fraction: Fraction, sympy.Expr: sympy.Rational}
VIEWS = {
    "as_strided": lambda x: x.as_strided((2,), (1,), 1),
    "expand": lambda x: x.expand(2, 3),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "diagonal": lambda x: x.expand(3, 3).diagonal(),
}


def _row(kind, make):
    return torch.tensor([make(1) / 2, make(2), make(3) / 2], dtype=kind)


@pytest.mark.parametrize(("kind", "make"), KINDS.items())
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_shares_the_memory(kind, make, view):
    x = _row(kind, make)
    assert numpy.shares_memory(view(x)._array, x._array)


def _scaled(x):
    y = x.clone()
    y[:1].mul_(x[2:])
    return y


def _copied(x):
    y = x * 1
    y.as_strided((1,), (1,), 1).copy_(x[2:] * x[:1])
    return y


@pytest.mark.parametrize(("kind", "make"), KINDS.items())
@pytest.mark.parametrize("function", [_scaled, _copied])
def test_gradients_of_writes_to_views_are_those_of_floats(kind, make, function):
    found = []
    for x in (_row(kind, make), _row(torch.float64, float)):
        leaf = x.requires_grad_()
        slope = torch.autograd.grad(function(leaf).pow(2).sum(), leaf, create_graph=True)[0]
        bend = torch.autograd.grad((slope * slope).sum(), leaf)[0]
        found.append([float(one) for part in (slope, bend) for one in part.detach().tolist()])
    assert found[0] == pytest.approx(found[1])
