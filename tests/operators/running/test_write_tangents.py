"""Writes in place inside derivatives of derivatives: what they keep carries its tangents."""

import pytest

import pullback as torch
from pullback.autograd import forward_ad

# What saves the old value, the result or both: written into a tensor, into a view, beside hooks.
WRITES = {
    "sin_": (lambda y: y.sin_(), lambda y: y.sin()),
    "pow_": (lambda y: y.pow_(3), lambda y: y.pow(3)),
    "exp_": (lambda y: y.exp_(), lambda y: y.exp()),
    "tanh_": (lambda y: y.tanh_(), lambda y: y.tanh()),
    "sigmoid_": (lambda y: y.sigmoid_(), lambda y: y.sigmoid()),
    "logit_": (lambda y: y.logit_(1e-3), lambda y: y.logit(1e-3)),
    "mul_": (lambda y: y.mul_(y.clone().cos()), lambda y: y * y.cos()),
    "div_": (lambda y: y.div_(y.clone().exp()), lambda y: y / y.exp()),
    "atan2_": (lambda y: y.atan2_(y.clone().exp()), lambda y: y.atan2(y.exp())),
    "addcdiv_": (
        lambda y: y.addcdiv_(y.clone().sin(), y.clone().exp()),
        lambda y: y.addcdiv(y.sin(), y.exp()),
    ),
    "part": (
        lambda y: (y[0].sin_().mul_(y[1].clone()), y)[1],
        lambda y: torch.stack([y[0].sin() * y[1], y[1]]),
    ),
    "transposed": (lambda y: (y.t().cos_()[1].sin_(), y)[1], lambda y: _second_sin(y.cos())),
    "twice": (
        lambda y: y.cos_().sin_().mul_(2).exp_(),
        lambda y: (y.cos().sin() * 2).exp(),
    ),
}


def _second_sin(y):
    return torch.stack([y[:, 0], y[:, 1].sin()], 1)


X = [[0.3, 0.7], [0.2, 0.9]]


def _both(name):
    write, plain = WRITES[name]
    x = torch.tensor(X, dtype=torch.float64)
    weight = torch.arange(1.0, 5.0, dtype=torch.float64).reshape(2, 2)
    return x, lambda x: (write(x * 1) * weight).sum(), lambda x: (plain(x * 1) * weight).sum()


@pytest.mark.parametrize("name", WRITES)
def test_derivatives_of_derivatives_see_a_write_as_its_operator(name):
    x, written, plain = _both(name)
    expected = torch.func.jacrev(torch.func.jacrev(plain))(x)
    forward, reverse = torch.func.jacfwd, torch.func.jacrev
    for outer, inner in ((forward, reverse), (reverse, forward), (forward, forward)):
        torch.testing.assert_close(outer(inner(written))(x), expected)
    torch.testing.assert_close(torch.func.hessian(written)(x), expected)


@pytest.mark.parametrize("name", WRITES)
def test_the_tangent_of_a_gradient_through_a_write(name):
    x, written, plain = _both(name)
    tangents = []
    for f in (written, plain):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x.clone(), torch.ones_like(x)).requires_grad_()
            (gradient,) = torch.autograd.grad(f(dual), dual)
            tangents.append(forward_ad.unpack_dual(gradient).tangent)
    torch.testing.assert_close(*tangents)


def test_values_that_hooks_packed_before_a_write_keep_their_tangents():
    x, written, plain = _both("twice")
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        found = []
        for f in (written, plain):
            with forward_ad.dual_level():
                dual = forward_ad.make_dual(x.clone(), torch.ones_like(x)).requires_grad_()
                (gradient,) = torch.autograd.grad(f(dual), dual)
                found.append(forward_ad.unpack_dual(gradient).tangent)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    ("write", "slope"),
    [
        (lambda y: y.mul_(y), lambda x: 2 * x),
        (lambda y: y.addcmul_(y, y), lambda x: 1 + 2 * x),
        (lambda y: y.atan2_(y), torch.zeros_like),
    ],
)
def test_the_tangent_of_a_tensor_written_from_itself(write, slope):
    x = torch.tensor([0.3, 0.7], dtype=torch.float64)
    _, tangent = torch.func.jvp(lambda x: write(x * 1), (x,), (torch.ones_like(x),))
    torch.testing.assert_close(tangent, slope(x))
