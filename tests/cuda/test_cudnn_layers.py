"""Recurrent layers by cuDNN on a device: the host's values and gradients."""

import numpy
import pytest

import pullback as torch
from tests.cuda.conftest import needs_device

pytestmark = needs_device


@pytest.fixture
def by_cudnn(device):
    if device.cudnn.library() is None:
        pytest.skip("cuDNN is not installed")
    device.cudnn.layers._known.clear()
    return device.cudnn.layers


def net(kind, dtype, width=8, **how):
    torch.manual_seed(0)
    return getattr(torch.nn, kind)(5, width, **how).to(dtype)


def outcome(made, x, *, weights):
    """Outputs, last states, and gradients of input and parameters."""
    x = x.detach().requires_grad_()
    out, states = made(x)
    states = states if isinstance(states, tuple) else (states,)
    loss = (out * weights).sum() + sum((one * one).sum() for one in states)
    grads = torch.autograd.grad(loss, [x, *made.parameters()])
    return [one.detach().cpu().double().numpy() for one in (out, *states, *grads)]


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"bias": False},
        {"bidirectional": True},
        {"num_layers": 2, "bidirectional": True},
        {"batch_first": True},
        {"width": 136},
        {"width": 128, "num_layers": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["float32", "float64"])
def test_layers_are_those_of_the_host(by_cudnn, kind, how, name):
    dtype = getattr(torch, name)
    x = torch.tensor(numpy.random.default_rng(0).normal(size=(7, 3, 5))).to(dtype)
    width = how.get("width", 8) * (2 if how.get("bidirectional") else 1)
    weights = torch.tensor(numpy.random.default_rng(1).normal(size=(7, 3, width))).to(dtype)
    expected = outcome(net(kind, dtype, **how), x, weights=weights)
    found = outcome(net(kind, dtype, **how).cuda(), x.cuda(), weights=weights.cuda())
    assert by_cudnn._known
    assert None not in by_cudnn._known.values()
    close = 1e-12 if name == "float64" else 1e-5
    for one, other in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=close, atol=close)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_second_pass_over_the_same_graph_is_right(by_cudnn, kind):
    made = net(kind, torch.float64).cuda()
    x = torch.randn(6, 2, 5, dtype=torch.float64).cuda().requires_grad_()
    loss = made(x)[0].square().sum()
    first = torch.autograd.grad(loss, x, retain_graph=True)[0]
    second = torch.autograd.grad(loss, x)[0]
    assert torch.equal(first, second)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_second_derivatives_agree(by_cudnn, kind):
    def penalty(device):
        made = net(kind, torch.float64).to(device)
        x = torch.linspace(-1, 1, 30, dtype=torch.float64).reshape(3, 2, 5).to(device)
        x.requires_grad_()
        (g,) = torch.autograd.grad(made(x)[0].sin().sum(), x, create_graph=True)
        return [one.cpu().numpy() for one in torch.autograd.grad(g.square().sum(), (x,))]

    numpy.testing.assert_allclose(penalty("cuda"), penalty("cpu"), rtol=1e-9, atol=1e-11)


def test_a_switch_between_the_passes_changes_nothing(by_cudnn):
    made = net("LSTM", torch.float64).cuda()
    x = torch.randn(6, 2, 5, dtype=torch.float64).cuda().requires_grad_()
    loss = made(x)[0].square().sum()
    expected = torch.autograd.grad(loss, x, retain_graph=True)[0]
    with torch.backends.cudnn.flags(enabled=False):
        assert torch.equal(torch.autograd.grad(loss, x)[0], expected)


def test_without_recording_the_values_are_the_same(by_cudnn):
    made = net("GRU", torch.float64).cuda()
    x = torch.randn(6, 2, 5, dtype=torch.float64).cuda()
    with torch.no_grad():
        found = made(x)[0]
    assert torch.allclose(found, made(x)[0], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("width", [8, 64, 100, 136])
def test_in_less_than_full_precision_three_digits_are_right(by_cudnn, kind, width):
    x = torch.tensor(numpy.random.default_rng(0).normal(size=(7, 3, 5))).float()
    weights = torch.tensor(numpy.random.default_rng(1).normal(size=(7, 3, width))).float()
    expected = outcome(net(kind, torch.float32, width), x, weights=weights)
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=True):
        found = outcome(net(kind, torch.float32, width).cuda(), x.cuda(), weights=weights.cuda())
    for one, other in zip(found, expected, strict=True):
        assert numpy.abs(one - other).max() <= 3e-3 * numpy.abs(other).max()
