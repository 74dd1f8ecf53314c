"""Norm layers: mean 0 and variance 1 over the right dimensions, with derivatives of every order."""

import numpy
import pytest

import pullback as torch
from pullback.autograd.gradcheck import gradcheck, gradgradcheck
from pullback.operators.blocks import BLOCK

functional = torch.nn.functional


def randn(*shape, seed=0, dtype=torch.float64):
    values = numpy.random.default_rng(seed).standard_normal(shape) * 2 + 1
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def standardised(x, dims, eps=1e-5):
    centred = x - x.mean(dims, keepdims=True)
    return centred / numpy.sqrt((centred**2).mean(dims, keepdims=True) + eps)


NORMS = {
    "layer": (lambda x, w, b: functional.layer_norm(x, (4,), w, b), (3, 2, 4), (4,), (2,)),
    "layer of two": (
        lambda x, w, b: functional.layer_norm(x, (2, 4), w, b),
        (3, 2, 4),
        (2, 4),
        (1, 2),
    ),
    "batch": (
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
        (5, 3, 2),
        (3,),
        (0, 2),
    ),
    "instance": (
        lambda x, w, b: functional.instance_norm(x, weight=w, bias=b),
        (2, 3, 5),
        (3,),
        (2,),
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_values_are_standardised_scaled_and_shifted(name):
    function, shape, weights, dims = NORMS[name]
    x, w, b = randn(*shape), randn(*weights, seed=1), randn(*weights, seed=2)
    by_channel = (-1, 1) if name in ("batch", "instance") else weights
    expected = standardised(x.detach().numpy(), dims) * w.detach().numpy().reshape(by_channel)
    expected = expected + b.detach().numpy().reshape(by_channel)
    numpy.testing.assert_allclose(function(x, w, b).detach().numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("name", NORMS)
def test_derivatives_of_both_orders_hold(name):
    function, shape, weights, _ = NORMS[name]
    inputs = randn(*shape), randn(*weights, seed=1), randn(*weights, seed=2)
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)
    assert gradgradcheck(lambda x: function(x, None, None), inputs[:1])


def test_third_derivative_of_layer_norm_is_the_difference_quotient_of_the_second():
    x = randn(1, 4)
    v = torch.tensor([[0.3, -0.2, 0.5, 0.1]], dtype=torch.float64)

    def derivative(order, at):
        y = (functional.layer_norm(at, (4,)) * v).sum()
        for _ in range(order):
            (slope,) = torch.autograd.grad(y, at, create_graph=True)
            y = (slope * v).sum()
        return y

    step = 1e-5
    above = derivative(2, (x + step * v).detach().requires_grad_())
    below = derivative(2, (x - step * v).detach().requires_grad_())
    quotient = (above - below).item() / (2 * step)
    assert derivative(3, x).item() == pytest.approx(quotient, rel=1e-5)


def test_rms_norm_takes_no_mean_away():
    x, w = randn(3, 4), randn(4, seed=1)
    values = x.detach().numpy()
    expected = values / numpy.sqrt((values**2).mean(1, keepdims=True) + 0.1) * w.detach().numpy()
    result = functional.rms_norm(x, (4,), w, eps=0.1)
    numpy.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-12)
    assert gradgradcheck(lambda *given: functional.rms_norm(given[0], (4,), given[1], 0.1), (x, w))


def test_group_norm_of_one_group_per_channel_is_instance_norm():
    x, w, b = randn(2, 4, 3), randn(4, seed=1), randn(4, seed=2)
    groups = functional.group_norm(x, 4, w, b)
    instances = functional.instance_norm(x, weight=w, bias=b)
    numpy.testing.assert_allclose(groups.detach().numpy(), instances.detach().numpy(), rtol=1e-10)
    assert gradcheck(lambda *given: functional.group_norm(given[0], 2, *given[1:]), (x, w, b))


def test_batch_norm_moves_its_running_statistics_in_training_only():
    x = randn(6, 2)
    mean, variance = torch.zeros(2).double(), torch.ones(2).double()
    functional.batch_norm(x, mean, variance, training=True, momentum=0.5)
    values = x.detach().numpy()
    numpy.testing.assert_allclose(mean.numpy(), values.mean(0) / 2, rtol=1e-10)
    numpy.testing.assert_allclose(variance.numpy(), (1 + values.var(0, ddof=1)) / 2, rtol=1e-6)
    assert mean._version == 1
    before = mean.clone()
    evaluated = functional.batch_norm(x, mean, variance)
    assert torch.equal(mean, before)
    expected = (values - mean.numpy()) / numpy.sqrt(variance.numpy() + 1e-5)
    numpy.testing.assert_allclose(evaluated.detach().numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks_do_not_show(dtype):
    width = BLOCK // 60
    x = randn(70, width, dtype=dtype)
    w, b = randn(width, seed=1, dtype=dtype), randn(width, seed=2, dtype=dtype)
    weights = randn(70, width, seed=3, dtype=dtype).detach()
    whole = functional.layer_norm(x, (width,), w, b)
    gradients = torch.autograd.grad(whole, (x, w, b), weights)
    parts = [x.detach()[i : i + 7].requires_grad_() for i in range(0, 70, 7)]
    total_w, total_b = 0, 0
    for number, part in enumerate(parts):
        rows = slice(7 * number, 7 * number + 7)
        of_part = torch.autograd.grad(
            functional.layer_norm(part, (width,), w, b), (part, w, b), weights[rows]
        )
        numpy.testing.assert_allclose(
            gradients[0][rows].numpy(), of_part[0].numpy(), rtol=1e-3, atol=1e-4
        )
        total_w, total_b = total_w + of_part[1], total_b + of_part[2]
    numpy.testing.assert_allclose(gradients[1].numpy(), total_w.numpy(), rtol=1e-3, atol=1e-3)
    numpy.testing.assert_allclose(gradients[2].numpy(), total_b.numpy(), rtol=1e-3, atol=1e-3)


def test_native_forms_give_the_statistics_too():
    x = randn(3, 4)
    out, mean, rstd = torch.native_layer_norm(x, (4,), None, None, 1e-5)
    assert mean.shape == rstd.shape == (3, 1)
    numpy.testing.assert_allclose(((x - mean) * rstd).detach().numpy(), out.detach().numpy())
    out, mean, rstd = torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
    assert mean.shape == rstd.shape == (4,)
    out, mean, rstd = torch.native_group_norm(x, None, None, 3, 4, 1, 2, 1e-5)
    assert mean.shape == rstd.shape == (3, 2)


def test_local_response_norm_looks_at_neighbouring_channels():
    x = randn(1, 3, 1)
    values = x.detach().numpy()[0, :, 0]
    near = numpy.array([values[:1] @ values[:1], values[:2] @ values[:2], values[1:] @ values[1:]])
    expected = values / (1 + 0.5 * near / 2) ** 0.75
    result = functional.local_response_norm(x, 2, alpha=0.5)
    numpy.testing.assert_allclose(result.detach().numpy()[0, :, 0], expected, rtol=1e-12)


def test_nothing_to_normalise_gives_nothing():
    x, w = randn(0, 4), randn(4)
    y = functional.layer_norm(x, (4,), w)
    assert y.shape == (0, 4)
    assert torch.autograd.grad(y.sum(), w)[0].tolist() == [0, 0, 0, 0]


REFUSED = [
    (TypeError, "sequence", lambda x: functional.layer_norm(x, 4)),
    (RuntimeError, "empty", lambda x: functional.layer_norm(x, ())),
    (RuntimeError, "last sizes", lambda x: functional.layer_norm(x, (3,))),
    (RuntimeError, "weight must have", lambda x: functional.layer_norm(x, (4,), torch.ones(4))),
    (NotImplementedError, "int64", lambda x: functional.layer_norm(x.long(), (4,))),
    (RuntimeError, "groups", lambda x: functional.group_norm(x, 3)),
    (RuntimeError, "running_mean", lambda x: functional.batch_norm(x, None, None)),
    (
        ValueError,
        "more than one",
        lambda x: functional.batch_norm(x[:1], None, None, training=True),
    ),
    (RuntimeError, "one element for each", lambda x: functional.batch_norm(x, x[0][:2], x[0])),
    (ValueError, "more than one", lambda x: functional.instance_norm(x[:, :, None])),
    (ValueError, "3 dimensions", lambda x: functional.local_response_norm(x, 2)),
]


@pytest.mark.parametrize(("kind", "words", "call"), REFUSED)
def test_misfits_are_refused(kind, words, call):
    with pytest.raises(kind, match=words):
        call(randn(2, 4).detach())
