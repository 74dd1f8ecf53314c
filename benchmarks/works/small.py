"""Works where autograd itself is the cost: many operators on ten elements, or on one."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from benchmarks.program import Program, Tensor, clear_grad, grads, work

PAIRS = 500  # of a product and a sum: 1000 operators


def chain_leaves(torch: ModuleType) -> list[Tensor]:
    """x, w and b of ten float64 elements, such that a long chain stays finite."""
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(10), rng.uniform(0.9, 1.0, 10), 0.1 * rng.standard_normal(10)]
    return [torch.tensor(value, requires_grad=True) for value in values]


def chain(x: Tensor, w: Tensor, b: Tensor, *, pairs: int = PAIRS) -> Tensor:
    """Apply `x * w + b` again and again."""
    for _ in range(pairs):
        x = x * w + b
    return x


@work("chain of 1000 small operators, forward")
def chain_forward(torch: ModuleType) -> Program:
    """Recording the history of cheap arithmetic."""
    leaves = chain_leaves(torch)
    return Program(run=lambda _: chain(*leaves), answer=lambda out: [out])


@work("chain of 1000 small operators, backward")
def chain_backward(torch: ModuleType) -> Program:
    """Walking that history, and freeing it."""
    leaves = chain_leaves(torch)
    seed = torch.ones(10, dtype=torch.float64)

    def prepare() -> Tensor:
        clear_grad(leaves)
        return chain(*leaves)

    return Program(
        prepare=prepare, run=lambda out: out.backward(seed), answer=lambda _: grads(leaves)
    )


@work("scalar-heavy gradient: a network of 0-d tensors")
def scalar_network(torch: ModuleType) -> Program:
    """4-8-1 neurons whose every weight is a tensor of its own, as in micrograd; two examples."""
    rng = np.random.default_rng(1)
    examples = [([0.5, -1.0, 2.0, 0.1], 1.0), ([-0.3, 0.8, -1.2, 0.4], -1.0)]

    def neurons(inputs: int, count: int) -> list[list[Tensor]]:
        draws = rng.uniform(-1, 1, (count, inputs + 1)).tolist()
        return [[torch.tensor(value, requires_grad=True) for value in row] for row in draws]

    hidden, final = neurons(4, 8), neurons(8, 1)
    leaves = [weight for row in hidden + final for weight in row]

    def layer(rows: list[list[Tensor]], inputs: list[Tensor]) -> list[Tensor]:
        outputs = []
        for *weights, total in rows:
            for weight, value in zip(weights, inputs, strict=True):
                total = total + weight * value
            outputs.append(total.tanh())
        return outputs

    def run(nothing: None) -> Tensor:
        loss = 0.0
        for inputs, target in examples:
            (out,) = layer(final, layer(hidden, inputs))
            loss = loss + (out - target) ** 2
        loss.backward()  # type: ignore[attr-defined]  # a tensor since the first example
        return loss

    return Program(
        prepare=lambda: clear_grad(leaves),
        run=run,
        answer=lambda loss: [loss.detach(), *grads(leaves)],
    )


@work("scalar-heavy gradient: a polynomial of degree 100")
def scalar_polynomial(torch: ModuleType) -> Program:
    """Horner's scheme on a 0-d tensor, with Python numbers as coefficients, and its derivative."""
    coefficients = np.random.default_rng(2).uniform(-1, 1, 101).tolist()
    x = torch.tensor(0.9, requires_grad=True)

    def run(nothing: None) -> Tensor:
        value = coefficients[0]
        for coefficient in coefficients[1:]:
            value = value * x + coefficient
        return torch.autograd.grad(value, x)

    return Program(run=run, answer=list)
