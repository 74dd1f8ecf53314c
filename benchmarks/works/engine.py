"""Works that weigh the engine: wide and deep graphs, hooks, pruned runs."""

from __future__ import annotations

from types import ModuleType

import numpy as np

from benchmarks.program import Program, Tensor, clear_grad, grads, work
from benchmarks.works.small import chain, chain_leaves

BRANCHES = 2000
DEEP_PAIRS = 100_000


@work("one leaf, 2000 branches, backward", needs=("stack",))
def fan_in(torch: ModuleType) -> Program:
    """All gradients meet in one leaf."""
    x = torch.tensor(np.linspace(-1, 1, 10), requires_grad=True)

    def prepare() -> Tensor:
        clear_grad([x])
        return torch.stack([x * (0.001 * branch) for branch in range(BRANCHES)]).sum()

    return Program(prepare=prepare, run=lambda out: out.backward(), answer=lambda _: grads([x]))


@work("chain of 200,000 operators, backward", rounds=5)
def deep_chain(torch: ModuleType) -> Program:
    """Deep enough to break any recursion, in the walk as in the freeing."""
    leaves = chain_leaves(torch)
    seed = torch.ones(10, dtype=torch.float64)

    def prepare() -> Tensor:
        clear_grad(leaves)
        return chain(*leaves, pairs=DEEP_PAIRS)

    return Program(
        prepare=prepare, run=lambda out: out.backward(seed), answer=lambda _: grads(leaves)
    )


@work("a hook on each of 200 tensors, backward", needs=("Tensor.register_hook",))
def hooks(torch: ModuleType) -> Program:
    """Each gradient on its way is shown to a Python function that replaces it."""
    leaves = chain_leaves(torch)
    seed = torch.ones(10, dtype=torch.float64)

    def prepare() -> Tensor:
        clear_grad(leaves)
        x, w, b = leaves
        for _ in range(200):
            x = x * w + b
            x.register_hook(lambda g: g * 0.99)
        return x

    return Program(
        prepare=prepare, run=lambda out: out.backward(seed), answer=lambda _: grads(leaves)
    )


@work("grad with inputs=, over a chain of 1000 operators")
def grad_inputs(torch: ModuleType) -> Program:
    """Two of the three leaves are not asked for, so their part of the walk may be left out."""
    leaves = chain_leaves(torch)
    seed = torch.ones(10, dtype=torch.float64)
    return Program(
        prepare=lambda: chain(*leaves),
        run=lambda out: torch.autograd.grad(out, inputs=[leaves[0]], grad_outputs=[seed]),
        answer=list,
    )
