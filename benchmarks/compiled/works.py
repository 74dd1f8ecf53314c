"""The works: chains of small operators, scalar programs, networks, objectives, single kernels."""

from __future__ import annotations

import math
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.compiled.program import (
    compiled,
    compiled_work,
    functional,
    is_ours,
    torch_style,
)
from benchmarks.program import Program, Tensor, clear_grad
from benchmarks.works.nets import language_model, mlp, mlp_parameters, parameter
from benchmarks.works.small import chain
from benchmarks.works.transforms import reprojection

# Chains --------------------------------------------------------------------------------------


def _chain_inputs(torch: ModuleType, dtype: Any) -> list[Tensor]:
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(10), rng.uniform(0.9, 1.0, 10), 0.1 * rng.standard_normal(10)]
    return [torch.tensor(value.astype(dtype), requires_grad=True) for value in values]


def _chain_sum(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return chain(x, w, b).sum()


def _mixed_sum(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    for _ in range(100):
        x = x * w + b
        x = (x.tanh() + b.exp()) / (w + 2.0)
        x = x.sin() - x * 0.5
        x = (x * x + 1.0).log()
    return x.sum()


@compiled_work("chain of 1000 small operators, float64: gradient")
def chain_f64(torch: ModuleType) -> Program:
    """Overhead alone."""
    return functional(torch, _chain_sum, _chain_inputs(torch, np.float64))


@compiled_work("chain of 1000 small operators, float32: gradient")
def chain_f32(torch: ModuleType) -> Program:
    """Overhead alone."""
    return functional(torch, _chain_sum, _chain_inputs(torch, np.float32))


@compiled_work("chain of 1000 small operators, float64: loss.backward()")
def chain_style(torch: ModuleType) -> Program:
    """One node instead of a thousand."""
    return torch_style(torch, _chain_sum, _chain_inputs(torch, np.float64))


@compiled_work("chain of 1000 mixed operators: gradient")
def mixed(torch: ModuleType) -> Program:
    """Division, exp, tanh, sin and log too."""
    return functional(torch, _mixed_sum, _chain_inputs(torch, np.float64))


@compiled_work("chain of 1000 mixed operators: loss.backward()")
def mixed_style(torch: ModuleType) -> Program:
    """The same through a node."""
    return torch_style(torch, _mixed_sum, _chain_inputs(torch, np.float64))


@compiled_work("Rosenbrock's function of 100 scalars: gradient")
def rosenbrock(torch: ModuleType) -> Program:
    """0-d tensors."""
    rng = np.random.default_rng(3)
    x = torch.tensor(rng.standard_normal(100))

    def function(x: Tensor) -> Tensor:
        parts = x.unbind()
        total = 0.0
        for a, b in pairwise(parts):
            total = total + 100.0 * (b - a * a) ** 2 + (1.0 - a) ** 2
        return total  # type: ignore[return-value]  # a tensor since the first term

    return functional(torch, function, [x])


# Networks ------------------------------------------------------------------------------------


def _classifier(torch: ModuleType, sizes: list[int], batch: int) -> Any:
    rng = np.random.default_rng(10)
    layers = mlp_parameters(torch, rng, sizes)
    leaves = [leaf for layer in layers for leaf in layer]
    x = torch.tensor(rng.standard_normal((batch, sizes[0]), dtype=np.float32))
    labels = torch.tensor(rng.integers(0, sizes[-1], batch))
    return layers, leaves, x, labels


@compiled_work("MLP step, batch 128 (784-512-512-10), update by hand", rounds=15)
def mlp_step(torch: ModuleType) -> Program:
    """Mostly BLAS: a whole step as one program."""
    layers, leaves, x, labels = _classifier(torch, [784, 512, 512, 10], 128)
    cross_entropy = torch.nn.functional.cross_entropy

    def step(x: Tensor, labels: Tensor) -> Tensor:
        loss = cross_entropy(mlp(torch, layers, x), labels)
        gradients = torch.autograd.grad(loss, leaves)
        with torch.no_grad():
            for leaf, g in zip(leaves, gradients, strict=True):
                leaf.sub_(g, alpha=1e-3)
        return loss.detach()

    called = compiled(torch, step)
    return Program(
        run=lambda _: called(x, labels),
        answer=lambda loss: [loss, *(leaf.detach() for leaf in leaves)],
    )


@compiled_work("MLP, batch 128 (784-512-512-10): loss.backward()", rounds=15)
def mlp_style(torch: ModuleType) -> Program:
    """Mostly BLAS, through a node."""
    layers, leaves, x, labels = _classifier(torch, [784, 512, 512, 10], 128)
    cross_entropy = torch.nn.functional.cross_entropy

    def loss_of(x: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(mlp(torch, layers, x), labels)

    called = compiled(torch, loss_of)

    def run(nothing: None) -> None:
        clear_grad(leaves)
        called(x, labels).backward()

    return Program(run=run, answer=lambda _: [leaf.grad for leaf in leaves])


def _adam_step(
    torch: ModuleType, leaves: list[Tensor], loss_of: Any, given: list[Tensor]
) -> Program:
    """A whole step with its optimizer."""
    optimizer = torch.optim.Adam(leaves, lr=1e-4)

    def step(*given: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(*given)
        loss.backward()
        optimizer.step()
        return loss.detach()

    called = compiled(torch, step, fullgraph=False)
    for _ in range(3):  # the first makes the optimizer's state
        called(*given)
    return Program(
        run=lambda _: called(*given),
        answer=lambda loss: [loss, *(leaf.detach() for leaf in leaves)],
    )


@compiled_work("MLP step with Adam, batch 128 (784-512-512-10)", rounds=15)
def mlp_adam(torch: ModuleType) -> Program:
    """Forward, backward and update as one program."""
    layers, leaves, x, labels = _classifier(torch, [784, 512, 512, 10], 128)
    cross_entropy = torch.nn.functional.cross_entropy

    def loss_of(x: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(mlp(torch, layers, x), labels)

    return _adam_step(torch, leaves, loss_of, [x, labels])


@compiled_work("tiny GPT (2 layers, 64 wide, 32 tokens, batch 8), step with Adam", rounds=15)
def tiny_gpt(torch: ModuleType) -> Program:
    """Embeddings, causal attention, feed-forward layers, cross entropy."""
    return _adam_step(torch, *language_model(torch))


def _block(torch: ModuleType) -> Any:
    functional_ = torch.nn.functional
    batch, length, width, heads = 8, 64, 128, 4
    rng = np.random.default_rng(12)
    x = torch.tensor(rng.standard_normal((batch, length, width), dtype=np.float32))
    norms = [made(width, requires_grad=True) for made in (torch.ones, torch.zeros) * 2]
    joint, project = parameter(torch, rng, 3 * width, width), parameter(torch, rng, width, width)
    wide = parameter(torch, rng, 4 * width, width)
    narrow = parameter(torch, rng, width, 4 * width)
    leaves = [*norms, joint, project, wide, narrow]

    def attention(x: Tensor) -> Tensor:
        q, k, v = (
            part.reshape(batch, length, heads, -1).transpose(1, 2)
            for part in (x @ joint.t()).chunk(3, -1)
        )
        weights = (q @ k.transpose(-2, -1) / math.sqrt(width // heads)).softmax(-1)
        return (weights @ v).transpose(1, 2).reshape(batch, length, width) @ project.t()

    def loss_of(x: Tensor) -> Tensor:
        x = x + attention(functional_.layer_norm(x, (width,), norms[0], norms[1]))
        y = functional_.layer_norm(x, (width,), norms[2], norms[3])
        return (x + functional_.gelu(y @ wide.t()) @ narrow.t()).square().mean()

    return x, leaves, loss_of


@compiled_work("transformer block (8 x 64 x 128, 4 heads): loss.backward()", rounds=15)
def block_style(torch: ModuleType) -> Program:
    """Attention and a feed-forward layer."""
    x, leaves, loss_of = _block(torch)
    called = compiled(torch, loss_of)

    def run(nothing: None) -> None:
        clear_grad(leaves)
        called(x).backward()

    return Program(run=run, answer=lambda _: [leaf.grad for leaf in leaves])


# Large arrays and single kernels ---------------------------------------------------------------


@compiled_work("4M float32 through layer norm, gelu, log-softmax: loss.backward()", rounds=11)
def large(torch: ModuleType) -> Program:
    """Memory traffic."""
    rng = np.random.default_rng(6)
    x = torch.tensor(rng.standard_normal((4096, 1024), dtype=np.float32), requires_grad=True)
    functional_ = torch.nn.functional

    def loss_of(x: Tensor) -> Tensor:
        y = functional_.gelu(functional_.layer_norm(x, (1024,)))
        y = (y * 1.5 + x).tanh()
        return functional_.log_softmax(y, -1).mean()

    return torch_style(torch, loss_of, [x])


def _kernel(torch: ModuleType, function: Any) -> Program:
    """Forward and backward with a given gradient."""
    rng = np.random.default_rng(7)
    x = torch.tensor(rng.standard_normal((4096, 1024), dtype=np.float32), requires_grad=True)
    g = torch.tensor(rng.standard_normal((4096, 1024), dtype=np.float32))
    if not is_ours(torch):
        called = compiled(torch, function)
        return Program(
            run=lambda _: torch.autograd.grad(called(x), x, g), answer=lambda made: list(made)
        )

    def pulled(x: Tensor, g: Tensor) -> Tensor:
        return torch.func.vjp(function, x)[1](g)[0]

    called, given = torch.compile(pulled, fullgraph=True), x.detach()
    return Program(run=lambda _: called(given, g), answer=lambda made: [made])


@compiled_work("softmax of (4096, 1024), forward and backward", rounds=11)
def softmax(torch: ModuleType) -> Program:
    """One kernel."""
    return _kernel(torch, lambda x: x.softmax(-1))


@compiled_work("layer norm of (4096, 1024), forward and backward", rounds=11)
def layer_norm(torch: ModuleType) -> Program:
    """One kernel."""
    return _kernel(torch, lambda x: torch.nn.functional.layer_norm(x, (1024,)))


@compiled_work("gelu of (4096, 1024), forward and backward", rounds=11)
def gelu(torch: ModuleType) -> Program:
    """One kernel."""
    return _kernel(torch, lambda x: torch.nn.functional.gelu(x))


# Objectives --------------------------------------------------------------------------------------


def _gmm(torch: ModuleType) -> Any:
    """The Gaussian mixture of ADBench: n points of d dimensions, k components."""
    n, d, k = 1000, 10, 25
    rng = np.random.default_rng(8)
    x = torch.tensor(rng.standard_normal((n, d)))
    inputs = [torch.tensor(rng.standard_normal(size) * 0.5, requires_grad=True)
              for size in ((k,), (k, d), (k, d), (k, d, d))]  # fmt: skip
    lower = torch.tensor(np.tril(np.ones((d, d)), -1))

    def objective(alphas: Tensor, means: Tensor, logs: Tensor, factors: Tensor) -> Tensor:
        diagonal = logs.exp()
        centred = x[:, None, :] - means[None]
        scaled = diagonal[None] * centred
        scaled = scaled + torch.einsum("kij,nkj->nki", factors * lower, centred)
        inner = alphas + logs.sum(1) - 0.5 * (scaled * scaled).sum(-1)
        total = torch.logsumexp(inner, 1).sum() - n * torch.logsumexp(alphas, 0)
        penalty = 0.5 * ((diagonal**2).sum() + ((factors * lower) ** 2).sum()) - logs.sum()
        return total - penalty

    return objective, inputs


@compiled_work("Gaussian mixture, 1000 points, 25 components: gradient", rounds=15)
def gmm(torch: ModuleType) -> Program:
    """An objective of ADBench."""
    return functional(torch, *_gmm(torch))


@compiled_work("Gaussian mixture: loss.backward()", rounds=15)
def gmm_style(torch: ModuleType) -> Program:
    """The same through a node."""
    return torch_style(torch, *_gmm(torch))


def _lstm(torch: ModuleType) -> Any:
    """The LSTM of ADBench, unrolled: elementwise gates, 2 layers, 14 wide, 100 steps."""
    layers, width, steps = 2, 14, 100
    rng = np.random.default_rng(9)
    weights = torch.tensor(rng.uniform(-0.5, 0.5, (layers, 2, 4 * width)), requires_grad=True)
    state0 = rng.uniform(-0.1, 0.1, (layers, 2, width))
    extra = torch.tensor(rng.uniform(-0.5, 0.5, (3, width)), requires_grad=True)
    sequence = [torch.tensor(row) for row in rng.uniform(0, 1, (steps, width))]

    def cell(w: Tensor, b: Tensor, h: Tensor, c: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        f = (x * w[:width] + b[:width]).sigmoid()
        i = (h * w[width : 2 * width] + b[width : 2 * width]).sigmoid()
        o = (x * w[2 * width : 3 * width] + b[2 * width : 3 * width]).sigmoid()
        g = (h * w[3 * width :] + b[3 * width :]).tanh()
        c = c * f + i * g
        return o * c.tanh(), c

    def objective(weights: Tensor, extra: Tensor) -> Tensor:
        state = [[torch.tensor(h), torch.tensor(c)] for h, c in state0]
        total: Any = 0.0
        for x, target in pairwise(sequence):
            y = x * extra[0]
            for layer in range(layers):
                h, c = cell(weights[layer, 0], weights[layer, 1], *state[layer], y)
                state[layer] = [h, c]
                y = h
            guess = y * extra[1] + extra[2]
            norm = guess - (guess.exp().sum() + 2.0).log()
            total = total + (target * norm).sum()
        return -total

    return objective, [weights, extra]


@compiled_work("LSTM objective, 2 layers, 100 steps: gradient", rounds=9)
def lstm(torch: ModuleType) -> Program:
    """An objective of ADBench, unrolled by Python."""
    return functional(torch, *_lstm(torch))


@compiled_work("LSTM objective: loss.backward()", rounds=9)
def lstm_style(torch: ModuleType) -> Program:
    """The same through a node."""
    return torch_style(torch, *_lstm(torch))


@compiled_work("bundle adjustment: residuals and their Jacobian, 200 observations", rounds=15)
def bundle_adjustment(torch: ModuleType) -> Program:
    """The reprojection error of ADBench, its Jacobian by camera and point for each observation."""
    residual, given = reprojection(torch)
    jacobian = torch.func.vmap(torch.func.jacrev(residual, argnums=(0, 1)))
    called = torch.compile(jacobian, fullgraph=True) if is_ours(torch) else jacobian
    return Program(run=lambda _: called(*given), answer=lambda made: list(made))


# Second derivatives ------------------------------------------------------------------------------


def _small_network(torch: ModuleType) -> Any:
    rng = np.random.default_rng(11)
    x = torch.tensor(rng.standard_normal((16, 4)))
    theta = torch.tensor(rng.standard_normal(50) * 0.5, requires_grad=True)

    def loss_of(theta: Tensor) -> Tensor:
        first, second = theta[:32].reshape(4, 8), theta[32:48].reshape(8, 2)
        y = (x @ first).tanh() @ second + theta[48:]
        return (y * y).mean()

    return loss_of, theta


@compiled_work("Hessian-vector product of a small network")
def hvp(torch: ModuleType) -> Program:
    """Reverse over reverse."""
    loss_of, theta = _small_network(torch)
    v = torch.ones(50, dtype=torch.float64)
    if is_ours(torch):

        def product(theta: Tensor, v: Tensor) -> Tensor:
            return torch.func.vjp(torch.func.grad(loss_of), theta)[1](v)[0]

        called, given = torch.compile(product, fullgraph=True), theta.detach()
        return Program(run=lambda _: called(given, v), answer=lambda made: [made], together=True)

    def run(nothing: None) -> Tensor:
        (g,) = torch.autograd.grad(loss_of(theta), theta, create_graph=True)
        return torch.autograd.grad(g, theta, v)[0]

    return Program(run=run, answer=lambda made: [made], together=True)


@compiled_work("Hessian of a small network, 50 parameters")
def hessian(torch: ModuleType) -> Program:
    """Forward over reverse, mapped."""
    loss_of, theta = _small_network(torch)
    given = theta.detach()
    made = torch.func.hessian(loss_of)
    called = compiled(torch, made)
    return Program(run=lambda _: called(given), answer=lambda made: [made], together=True)
