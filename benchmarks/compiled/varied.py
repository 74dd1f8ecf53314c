"""Works that write to parts of memory, and works whose sizes and numbers change between calls."""

from __future__ import annotations

from itertools import cycle
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.compiled.program import compiled, compiled_work, torch_style
from benchmarks.program import Program, Tensor, clear_grad

# Writes ----------------------------------------------------------------------------------------


def _leaf(torch: ModuleType, *shape: int) -> Tensor:
    rng = np.random.default_rng(0)
    return torch.tensor(rng.standard_normal(shape).astype(np.float32), requires_grad=True)


@compiled_work("100 windows of 16 added to a buffer: loss.backward()")
def windows(torch: ModuleType) -> Program:
    """In-place sums on overlapping slices."""

    def loss_of(v: Tensor) -> Tensor:
        buffer = torch.zeros(3 * 100 + 16)
        for n in range(100):
            buffer[3 * n : 3 * n + 16] += v * (n * 0.01)
        return (buffer * buffer).sum()

    return torch_style(torch, loss_of, [_leaf(torch, 16)])


@compiled_work("50 steps of a stencil written through views: loss.backward()")
def views(torch: ModuleType) -> Program:
    """A grid whose inside and border are assigned."""

    def loss_of(x: Tensor) -> Tensor:
        grid = x.clone()
        for _ in range(50):
            inside = grid[1:-1, 1:-1] * 0.5 + 0.1 * (grid[:-2, 1:-1] + grid[2:, 1:-1])
            grid[1:-1, 1:-1] = inside
            grid[0] = grid[1]
        return grid.sum()

    return torch_style(torch, loss_of, [_leaf(torch, 16, 16)])


@compiled_work("linear layer and BatchNorm in training (32, 16): loss.backward()")
def batch_norm(torch: ModuleType) -> Program:
    """Running statistics are written in each call."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.BatchNorm1d(16))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(_leaf(torch, *parameter.shape).detach())
    leaves = list(net.parameters())
    x = _leaf(torch, 32, 16).detach()
    called = compiled(torch, lambda x: net(x).relu().square().sum())

    def run(nothing: None) -> None:
        clear_grad(leaves)
        called(x).backward()

    return Program(run=run, answer=lambda _: [leaves[0].grad, leaves[2].grad, leaves[3].grad])


# Sizes and numbers that change -------------------------------------------------------------------


@compiled_work("attention over a cache of 2 to 1000 tokens, another length in each call")
def decode(torch: ModuleType) -> Program:
    """A cache that grows."""
    attention = torch.nn.functional.scaled_dot_product_attention
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.standard_normal((2, 1, 16)).astype(np.float32))
    caches = [
        torch.tensor(rng.standard_normal((2, n, 16)).astype(np.float32)) for n in range(2, 1001)
    ]

    def step(x: Tensor, cache: Tensor) -> Tensor:
        keys = torch.cat([cache, x], 1)
        return attention(x, keys, keys)

    called = compiled(torch, step)
    order = cycle(caches)

    def run(nothing: None) -> Any:
        with torch.no_grad():
            return called(x, next(order))

    def answer(made: Any) -> list[Tensor]:
        with torch.no_grad():
            return [called(x, one) for one in caches[::100]]

    return Program(run=run, answer=answer)


@compiled_work("GPT that slices its input, 20 lengths in turn: loss.backward()", rounds=9)
def gpt_slices(torch: ModuleType) -> Program:
    """Every size of the program is one less than that of the argument."""
    rng = np.random.default_rng(0)
    width, words = 32, 50
    functional = torch.nn.functional
    shapes = [(words, width), (64, width), (3 * width, width), (width, width), (words, width)]
    leaves = [
        torch.tensor((rng.standard_normal(one) * 0.1).astype(np.float32), requires_grad=True)
        for one in shapes
    ]
    table, places, mixed, out, last = leaves

    def loss_of(tokens: Tensor) -> Tensor:
        given, wanted = tokens[:, :-1], tokens[:, 1:]
        x = functional.embedding(given, table) + places[: given.shape[1]]
        q, k, v = functional.linear(functional.layer_norm(x, (width,)), mixed).split(width, -1)
        x = x + functional.linear(
            functional.scaled_dot_product_attention(q, k, v, is_causal=True), out
        )
        scores = functional.linear(functional.gelu(x), last)
        return functional.cross_entropy(scores.reshape(-1, words), wanted.reshape(-1))

    batches = [torch.tensor(rng.integers(0, words, (4, n))) for n in range(9, 49, 2)]
    called = compiled(torch, loss_of)
    order = cycle(batches)

    def run(nothing: None) -> None:
        clear_grad(leaves)
        called(next(order)).backward()

    def answer(made: Any) -> list[Tensor]:
        clear_grad(leaves)
        called(batches[3]).backward()
        return [leaf.grad for leaf in leaves]

    return Program(run=run, answer=answer)


@compiled_work("update of (64, 64) weights by a rate that is another in each call")
def changing_rate(torch: ModuleType) -> Program:
    """A schedule: the number is an argument."""
    weight, gradient = _leaf(torch, 64, 64).detach(), _leaf(torch, 64, 64).detach().sin()

    def update(weight: Tensor, gradient: Tensor, rate: float) -> Tensor:
        return weight - rate * (gradient + 0.01 * weight)

    called = compiled(torch, update)
    rates = cycle([0.1 / (1 + 0.01 * n) for n in range(1000)])
    return Program(
        run=lambda _: called(weight, gradient, next(rates)),
        answer=lambda _: [called(weight, gradient, 0.037)],
    )
