"""Whichever way an LSTM's inputs are multiplied and its gradients copied, the numbers are one."""

import numpy
import pytest

import pullback as torch
from pullback.nn.base import lstm_kernels, recurrent_kernels


def passes(kind, batch, dtype, *, both):
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(3, 4, bidirectional=both, dtype=dtype)
    x = torch.randn(4, batch, 3, dtype=dtype, requires_grad=True)
    out, last = layer(x)
    hidden, cell = last if kind == "LSTM" else (last, last)
    loss = (out * out.cos()).sum() + hidden.sum() + (cell * cell).sum()
    found = torch.autograd.grad(loss, [x, *layer.parameters()])
    return [one.detach().numpy() for one in (out, hidden, cell, *found)]


def assert_close(ours, theirs, dtype):
    near = 1e-10 if dtype is torch.float64 else 2e-5
    for one, other in zip(ours, theirs, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=near, atol=near)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize("batch", [1, 2, 9, 33])
def test_inputs_and_states_multiplied_together_or_apart_give_the_same(
    batch, both, dtype, monkeypatch
):
    together = passes("LSTM", batch, dtype, both=both)
    monkeypatch.setattr(lstm_kernels, "_JOINED", 0)
    assert_close(passes("LSTM", batch, dtype, both=both), together, dtype)
    monkeypatch.setattr(recurrent_kernels, "_WEIGHTS", 0)
    assert_close(passes("LSTM", batch, dtype, both=both), together, dtype)


@pytest.mark.parametrize("kind", ["GRU", "RNN"])
def test_inputs_of_all_times_or_of_each_give_the_same(kind, monkeypatch):
    each = passes(kind, 9, torch.float64, both=True)
    monkeypatch.setattr(recurrent_kernels, "_WEIGHTS", 0)
    assert_close(passes(kind, 9, torch.float64, both=True), each, torch.float64)


@pytest.mark.parametrize("batch", [3, 33])
@pytest.mark.parametrize("kind", ["GRU", "LSTM", "RNN"])
def test_many_examples_have_the_gradients_of_few(kind, batch):
    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(3, 4, dtype=torch.float64)
    x = torch.randn(4, batch, 3, dtype=torch.float64)
    whole = torch.autograd.grad(layer(x)[0].cos().sum(), list(layer.parameters()))
    apart = [
        torch.autograd.grad(layer(one)[0].cos().sum(), list(layer.parameters()))
        for one in x.split(1, 1)
    ]
    summed = [sum(parts) for parts in zip(*apart, strict=True)]
    assert_close([one.numpy() for one in whole], [one.numpy() for one in summed], torch.float64)


def test_gates_that_are_shut_or_open_stay_within_a_rounding():
    layer = torch.nn.LSTM(1, 1)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        layer.bias_ih_l0.copy_(torch.tensor([-200.0, 200.0, 3.0, 200.0]))
    start = torch.full((1, 1, 1), 0.5)
    out, (_, cell) = layer(torch.zeros(3, 1, 1), (torch.zeros(1, 1, 1), start))
    numpy.testing.assert_allclose(cell.detach().numpy(), start.numpy(), rtol=1e-6)
    numpy.testing.assert_allclose(
        out.detach().numpy(), numpy.full((3, 1, 1), numpy.tanh(0.5)), rtol=1e-6
    )
