"""Works that look like training: a dense network, a convolutional one, transformers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import ModuleType

import numpy as np

from benchmarks.program import Program, Tensor, clear_grad, grads, work

RATE = 1e-3  # low, so that thousands of steps on one batch neither diverge nor finish


def parameter(torch: ModuleType, rng: np.random.Generator, *shape: int) -> Tensor:
    """A float32 leaf, scaled by its fan-in (the product of all but its first size)."""
    scale = float(np.prod(shape[1:])) ** -0.5
    values = (rng.standard_normal(shape) * scale).astype(np.float32)
    return torch.tensor(values, requires_grad=True)


def mlp_parameters(
    torch: ModuleType, rng: np.random.Generator, sizes: list[int]
) -> list[tuple[Tensor, Tensor]]:
    """A weight and a bias for each layer."""
    return [
        (parameter(torch, rng, outputs, inputs), torch.zeros(outputs, requires_grad=True))
        for inputs, outputs in pairwise(sizes)
    ]


def mlp(torch: ModuleType, layers: list[tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
    """Linear layers with relu between them."""
    for weight, bias in layers[:-1]:
        x = torch.nn.functional.linear(x, weight, bias).relu()
    return torch.nn.functional.linear(x, *layers[-1])


def descend(torch: ModuleType, leaves: list[Tensor]) -> None:
    """One step of gradient descent, by hand."""
    with torch.no_grad():
        for leaf in leaves:
            leaf -= RATE * leaf.grad
            leaf.grad = None


def mlp_training(torch: ModuleType, sizes: list[int], batch: int) -> Program:
    """Whole training steps of a classifier: forward, loss, backward, update."""
    rng = np.random.default_rng(10)
    layers = mlp_parameters(torch, rng, sizes)
    leaves = [leaf for layer in layers for leaf in layer]
    x = torch.tensor(rng.standard_normal((batch, sizes[0]), dtype=np.float32))
    labels = torch.tensor(rng.integers(0, sizes[-1], batch))

    def run(nothing: None) -> Tensor:
        loss = torch.nn.functional.cross_entropy(mlp(torch, layers, x), labels)
        loss.backward()
        descend(torch, leaves)
        return loss.detach()

    return Program(run=run, answer=lambda loss: [loss, *(leaf.detach() for leaf in leaves)])


@work(
    "MLP step, batch 128 (784-256-256-10)",
    needs=("nn.functional.linear", "nn.functional.cross_entropy"),
)
def mlp_step(torch: ModuleType) -> Program:
    """Mostly BLAS."""
    return mlp_training(torch, [784, 256, 256, 10], batch=128)


@work(
    "small conv net, batch 16, forward and backward",
    needs=("nn.functional.conv2d", "nn.functional.max_pool2d", "nn.functional.cross_entropy"),
)
def conv_net(torch: ModuleType) -> Program:
    """Two convolutions with pooling and a linear layer, on 28 x 28 images."""
    functional = torch.nn.functional
    rng = np.random.default_rng(11)
    images = torch.tensor(rng.standard_normal((16, 1, 28, 28), dtype=np.float32))
    labels = torch.tensor(rng.integers(0, 10, 16))
    first, second = parameter(torch, rng, 8, 1, 5, 5), parameter(torch, rng, 16, 8, 3, 3)
    final = parameter(torch, rng, 10, 16 * 5 * 5)
    leaves = [first, second, final]

    def run(nothing: None) -> Tensor:
        x = functional.max_pool2d(functional.conv2d(images, first).relu(), 2)
        x = functional.max_pool2d(functional.conv2d(x, second).relu(), 2)
        loss = functional.cross_entropy(x.flatten(1) @ final.t(), labels)
        loss.backward()
        return loss.detach()

    return Program(
        prepare=lambda: clear_grad(leaves),
        run=run,
        answer=lambda loss: [loss, *grads(leaves)],
    )


@work(
    "transformer block (8 x 64 x 128, 4 heads), forward and backward",
    needs=("nn.functional.layer_norm", "nn.functional.gelu", "nn.functional.softmax"),
)
def transformer_block(torch: ModuleType) -> Program:
    """Attention and a feed-forward layer, each after a layer norm and around a residual."""
    functional = torch.nn.functional
    batch, length, width, heads = 8, 64, 128, 4
    rng = np.random.default_rng(12)
    x = torch.tensor(rng.standard_normal((batch, length, width), dtype=np.float32))
    (norm_1, shift_1), (norm_2, shift_2) = (
        (torch.ones(width, requires_grad=True), torch.zeros(width, requires_grad=True))
        for _ in range(2)
    )
    joint, project = parameter(torch, rng, 3 * width, width), parameter(torch, rng, width, width)
    wide = parameter(torch, rng, 4 * width, width)
    narrow = parameter(torch, rng, width, 4 * width)
    leaves = [norm_1, shift_1, norm_2, shift_2, joint, project, wide, narrow]

    def attention(x: Tensor) -> Tensor:
        parts = (x @ joint.t()).view(batch, length, 3, heads, width // heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-1, -2) * (width // heads) ** -0.5
        mixed = functional.softmax(scores, dim=-1) @ value
        return mixed.transpose(1, 2).reshape(batch, length, width) @ project.t()

    def run(nothing: None) -> Tensor:
        h = x + attention(functional.layer_norm(x, (width,), norm_1, shift_1))
        normed = functional.layer_norm(h, (width,), norm_2, shift_2)
        out = h + functional.gelu(normed @ wide.t()) @ narrow.t()
        loss = (out**2).mean()
        loss.backward()
        return loss.detach()

    return Program(
        prepare=lambda: clear_grad(leaves),
        run=run,
        answer=lambda loss: [loss, *grads(leaves)],
    )


def language_model(torch: ModuleType) -> tuple[list[Tensor], Callable[..., Tensor], list[Tensor]]:
    """A tiny GPT: its leaves, its loss, and what that is given: tokens and labels."""
    functional = torch.nn.functional
    batch, length, width, heads, words, depth = 8, 32, 64, 4, 65, 2
    rng = np.random.default_rng(13)
    tokens = torch.tensor(rng.integers(0, words, (batch, length)))
    labels = torch.tensor(rng.integers(0, words, batch * length))
    table, places = parameter(torch, rng, words, width), parameter(torch, rng, length, width)
    layers = [
        [torch.ones(width, requires_grad=True), torch.zeros(width, requires_grad=True),
         parameter(torch, rng, 3 * width, width), parameter(torch, rng, width, width),
         torch.ones(width, requires_grad=True), torch.zeros(width, requires_grad=True),
         parameter(torch, rng, 4 * width, width), parameter(torch, rng, width, 4 * width)]
        for _ in range(depth)
    ]  # fmt: skip
    head = parameter(torch, rng, words, width)
    leaves = [table, places, head, *(leaf for layer in layers for leaf in layer)]

    def loss_of(tokens: Tensor, labels: Tensor) -> Tensor:
        x = functional.embedding(tokens, table) + places
        for norm_1, shift_1, joint, project, norm_2, shift_2, wide, narrow in layers:
            y = functional.layer_norm(x, (width,), norm_1, shift_1) @ joint.t()
            q, k, v = (p.reshape(batch, length, heads, -1).transpose(1, 2) for p in y.chunk(3, -1))
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + y.transpose(1, 2).reshape(batch, length, width) @ project.t()
            y = functional.layer_norm(x, (width,), norm_2, shift_2)
            x = x + functional.gelu(y @ wide.t()) @ narrow.t()
        return functional.cross_entropy((x @ head.t()).reshape(-1, words), labels)

    return leaves, loss_of, [tokens, labels]


@work(
    "tiny GPT (2 layers, 64 wide, 32 tokens, batch 8), step with Adam",
    needs=("nn.functional.scaled_dot_product_attention", "optim.Adam"),
)
def tiny_gpt(torch: ModuleType) -> Program:
    """Embeddings, causal attention, feed-forward layers, cross entropy, all parameters stepped."""
    leaves, loss_of, given = language_model(torch)
    # So small a rate that thousands of steps change nothing that is compared.
    optimizer = torch.optim.Adam(leaves, lr=1e-9)

    def run(nothing: None) -> Tensor:
        optimizer.zero_grad()
        loss = loss_of(*given)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return Program(run=run, answer=lambda loss: [loss, *grads(leaves)])
