"""Works where an optimizer's step is the cost: many small parameters, one large one."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.program import Program, work

COUNT, SIZE = 50, 1000
NEEDS = ("optim.Adam", "optim.SGD")


def stepping(torch: ModuleType, name: str, shapes: list[int], **options: Any) -> Program:
    """Steps with gradients that stay the same; `foreach=True`, torch's multi-tensor way."""
    rng = np.random.default_rng(20)
    leaves = []
    for size in shapes:
        leaf = torch.tensor(rng.standard_normal(size, dtype=np.float32), requires_grad=True)
        leaf.grad = torch.tensor(rng.standard_normal(size, dtype=np.float32))
        leaves.append(leaf)
    # So small a rate that thousands of steps change nothing that is compared.
    optimizer = getattr(torch.optim, name)(leaves, lr=1e-9, foreach=True, **options)
    return Program(
        run=lambda _: optimizer.step(), answer=lambda _: [leaf.detach() for leaf in leaves]
    )


@work("Adam over 50 tensors of 1,000", needs=NEEDS)
def adam_step(torch: ModuleType) -> Program:
    """Calls cost more than arithmetic here, unless the parameters are stepped together."""
    return stepping(torch, "Adam", [SIZE] * COUNT)


@work("SGD with momentum over 50 tensors of 1,000", needs=NEEDS)
def sgd_momentum_step(torch: ModuleType) -> Program:
    """The cheapest update that has a state."""
    return stepping(torch, "SGD", [SIZE] * COUNT, momentum=0.9)


@work("Adam by hand over 50 tensors of ten")
def adam_by_hand(torch: ModuleType) -> Program:
    """The update as one writes it: in-place operators with a scaling each."""
    rng = np.random.default_rng(21)
    states = [[torch.tensor(rng.uniform(0.5, 1.5, 10)) for _ in range(4)] for _ in range(COUNT)]

    def run(nothing: None) -> None:
        with torch.no_grad():
            for parameter, gradient, mean, square in states:
                mean.mul_(0.9).add_(gradient, alpha=0.1)
                square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
                parameter.addcdiv_(mean, square.sqrt().add_(1e-8), value=-1e-12)

    return Program(run=run, answer=lambda _: [state[0] for state in states])


@work("Adam over one tensor of a million", needs=NEEDS)
def adam_large_step(torch: ModuleType) -> Program:
    """Memory and arithmetic alone."""
    return stepping(torch, "Adam", [1_000_000])


@work("SGD over one tensor of a million", needs=NEEDS)
def sgd_large_step(torch: ModuleType) -> Program:
    """A product and a difference: what is kept in cache between them is the cost."""
    return stepping(torch, "SGD", [1_000_000])


@work("SGD with momentum over one tensor of a million", needs=NEEDS)
def sgd_momentum_large_step(torch: ModuleType) -> Program:
    """The same with a state."""
    return stepping(torch, "SGD", [1_000_000], momentum=0.9)
