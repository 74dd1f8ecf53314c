"""Works of `nn`: recurrent layers, convolutions, small batches, a model of letters."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.program import Program, Tensor, clear_grad, grads, work

LENGTH, BATCH, LETTERS = 32, 16, 40


def drawn(torch: ModuleType, rng: np.random.Generator, *shape: int) -> Tensor:
    """Normal numbers, the same in either library."""
    return torch.tensor(rng.standard_normal(shape, dtype=np.float32))


def set_up(torch: ModuleType, rng: np.random.Generator, module: Any) -> Any:
    """Give a module the same parameters in either library."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(drawn(torch, rng, *parameter.shape) * 0.1)
    return module


def passes(module: Any, loss_of: Callable[[], Tensor], *leaves: Tensor) -> Program:
    """Forward and backward; the gradients of all parameters must agree."""
    wanted = [*module.parameters(), *leaves]

    def run(nothing: None) -> Tensor:
        loss = loss_of()
        loss.backward()
        return loss.detach()

    return Program(
        prepare=lambda: clear_grad(wanted),
        run=run,
        answer=lambda loss: [loss, *grads(wanted)],
    )


def recurrent(torch: ModuleType, name: str) -> Program:
    """Five steps of a small layer: mostly calls."""
    rng = np.random.default_rng(30)
    layer = set_up(torch, rng, getattr(torch.nn, name)(16, 32))
    x = drawn(torch, rng, 5, 8, 16)
    return passes(layer, lambda: layer(x)[0].sum())


@work("LSTM, 5 steps, 8 x 16 to 32, forward and backward", needs=("nn.LSTM",))
def lstm(torch: ModuleType) -> Program:
    """One node for the layer."""
    return recurrent(torch, "LSTM")


@work("GRU, 5 steps, 8 x 16 to 32, forward and backward", needs=("nn.GRU",))
def gru(torch: ModuleType) -> Program:
    """One node for the layer."""
    return recurrent(torch, "GRU")


@work("letters by an LSTM of 64, training step", needs=("nn.LSTM", "optim.Adam"))
def letters(torch: ModuleType) -> Program:
    """Embedding, LSTM over 32 letters, linear layer, cross entropy."""
    rng = np.random.default_rng(31)
    net = torch.nn.ModuleDict(
        {
            "seen": torch.nn.Embedding(LETTERS, 16),
            "layer": torch.nn.LSTM(16, 64, batch_first=True),
            "scores": torch.nn.Linear(64, LETTERS),
        }
    )
    set_up(torch, rng, net)
    text = torch.tensor(rng.integers(0, LETTERS, (BATCH, LENGTH + 1)))
    # So small a rate that thousands of steps change nothing that is compared.
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-9)

    def run(nothing: None) -> Tensor:
        optimizer.zero_grad()
        scores = net["scores"](net["layer"](net["seen"](text[:, :-1]))[0])
        loss = torch.nn.functional.cross_entropy(
            scores.reshape(-1, LETTERS), text[:, 1:].reshape(-1)
        )
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(run=run, answer=lambda loss: [loss])


def convolution(torch: ModuleType, channels: int, outputs: int, size: int) -> Program:
    """One convolution with kernels of 3 x 3, and all of its gradients."""
    rng = np.random.default_rng(32)
    layer = set_up(torch, rng, torch.nn.Conv2d(channels, outputs, 3, padding=1))
    x = drawn(torch, rng, 8, channels, size, size).requires_grad_()
    g = drawn(torch, rng, 8, outputs, size, size)
    return passes(layer, lambda: (layer(x) * g).sum(), x)


@work("convolution 3 to 16 channels, 8 x 32 x 32, all gradients", needs=("nn.Conv2d",))
def convolution_first(torch: ModuleType) -> Program:
    """The first layer of a net: few channels, many places."""
    return convolution(torch, 3, 16, 32)


@work("convolution 16 to 32 channels, 8 x 16 x 16, all gradients", needs=("nn.Conv2d",))
def convolution_middle(torch: ModuleType) -> Program:
    """A layer in the middle: copies of windows weigh as much as the products."""
    return convolution(torch, 16, 32, 16)


@work("MLP, batch 16 (64-256-10), forward and backward", needs=("nn.Sequential", "nn.ReLU"))
def mlp_small_batch(torch: ModuleType) -> Program:
    """Products whose second matrix is transposed, and larger than the first."""
    rng = np.random.default_rng(33)
    nn = torch.nn
    net = set_up(torch, rng, nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10)))
    x = drawn(torch, rng, 16, 64)
    return passes(net, lambda: net(x).sum())


@work("batch norm, 16 x 32 x 16 x 16, training, forward and backward", needs=("nn.BatchNorm2d",))
def batch_norm(torch: ModuleType) -> Program:
    """The statistics serve the result, the running ones and the gradients."""
    rng = np.random.default_rng(34)
    layer = set_up(torch, rng, torch.nn.BatchNorm2d(32))
    x = drawn(torch, rng, 16, 32, 16, 16).requires_grad_()
    g = drawn(torch, rng, 16, 32, 16, 16)
    return passes(layer, lambda: (layer(x) * g).sum(), x)
