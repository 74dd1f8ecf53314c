"""How a small call is measured: its source, repeated in a loop that does nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.program import Program, Work
from benchmarks.small_table import DIFFERENTIABLE, WITHOUT_BACKWARD, tensors

DIRECTIONS = ("forward", "backward")
FAMILIES = [*DIFFERENTIABLE, *WITHOUT_BACKWARD]
TIMES = 20  # in a run, so that calling it weighs little beside an attribute
PREFIX = "small"


def compiled(body: str, scope: dict[str, Any]) -> Callable[[Any], Any]:
    """A function that does `body` some times over."""
    source = f"def run(_):\n    for _ in range({TIMES}):\n        {body}\n"
    exec(compile(source, f"<small: {body}>", "exec"), scope)
    run: Callable[[Any], Any] = scope["run"]
    return run


def forward_program(torch: ModuleType, call: str) -> Program:
    """The call alone."""
    scope = tensors(torch, recorded=False)
    return Program(run=compiled(call, scope), together=True, answer=lambda _: [])


def backward_scope(torch: ModuleType, call: str) -> tuple[str, dict[str, Any]]:
    """A line that asks for the gradients of the leaves that a call uses, and what it names."""
    scope = tensors(torch, recorded=True)
    scope["grad"] = grad = torch.autograd.grad
    out = eval(call, scope)
    scope["seed"] = torch.tensor(
        np.random.default_rng(1).standard_normal(out.shape), dtype=out.dtype
    )
    used = {name: scope[name] for name in compile(call, "<call>", "eval").co_names if name in scope}
    leaves = [one for one in used.values() if getattr(one, "requires_grad", False)]
    found = grad(out, leaves, scope["seed"], allow_unused=True)
    pairs = [(leaf, one) for leaf, one in zip(leaves, found, strict=True) if one is not None]
    scope["leaves"], scope["found"] = [leaf for leaf, _ in pairs], [one for _, one in pairs]
    return f"grad({call}, leaves, seed)", scope


def backward_program(torch: ModuleType, call: str) -> Program:
    """The call, and the gradients of the leaves that it used."""
    line, scope = backward_scope(torch, call)
    return Program(run=compiled(line, scope), together=True, answer=lambda _: scope["found"])


def small_work(name: str) -> Work:
    """The work `small/direction/call`."""
    _, direction, call = name.split("/", 2)
    build = forward_program if direction == "forward" else backward_program
    return Work(name, call, lambda torch: build(torch, call), (), None)


def small_works(families: Sequence[str], directions: Sequence[str]) -> list[Work]:
    """All calls of these families, in these directions."""
    found = []
    for family in families:
        for call in DIFFERENTIABLE.get(family) or WITHOUT_BACKWARD[family]:
            found += [
                small_work(f"{PREFIX}/{direction}/{call}")
                for direction in directions
                if family in DIFFERENTIABLE or direction == "forward"
            ]
    return found
