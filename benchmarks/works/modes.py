"""Works where something is unusual about every call: saved-tensor hooks, checkpoints, no_grad."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import numpy as np

from benchmarks.program import Program, Tensor, clear_grad, grads, work
from benchmarks.works.nets import parameter
from benchmarks.works.small import chain, chain_leaves

BLOCKS = 100


@work("chain of 200 small operators under saved-tensor hooks, forward and backward")
def saved_hooks(torch: ModuleType) -> Program:
    """Hooks that give back what they got: what calling them costs."""
    leaves = chain_leaves(torch)
    hooks = torch.autograd.graph.saved_tensors_hooks

    def run(nothing: None) -> None:
        with hooks(lambda tensor: tensor, lambda kept: kept):
            out = chain(*leaves, pairs=100)
        out.sum().backward()

    return Program(prepare=lambda: clear_grad(leaves), run=run, answer=lambda _: grads(leaves))


@work("checkpointed MLP stack, forward and backward", needs=("utils.checkpoint",))
def checkpointed_mlp(torch: ModuleType) -> Program:
    """Six blocks of 64-256-64 with gelu, batch 32, each a checkpoint."""
    checkpoint = import_module(f"{torch.__name__}.utils.checkpoint").checkpoint
    gelu, rng = torch.nn.functional.gelu, np.random.default_rng(30)
    weights = [(parameter(torch, rng, 64, 256), parameter(torch, rng, 256, 64)) for _ in range(6)]
    leaves = [one for pair in weights for one in pair]
    x = torch.tensor(rng.standard_normal((32, 64), dtype=np.float32), requires_grad=True)

    def block(x: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return x + gelu(x @ first) @ second

    def run(nothing: None) -> None:
        y = x
        for first, second in weights:
            y = checkpoint(block, y, first, second, use_reentrant=False)
        y.sum().backward()

    return Program(
        prepare=lambda: clear_grad([x, *leaves]), run=run, answer=lambda _: grads([x, *leaves])
    )


@work("100 empty blocks under no_grad")
def no_grad_blocks(torch: ModuleType) -> Program:
    """What the switch itself costs."""

    def run(nothing: None) -> None:
        for _ in range(BLOCKS):
            with torch.no_grad():
                pass

    return Program(run=run, answer=lambda _: [])
