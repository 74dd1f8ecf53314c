"""How a compiled work is registered, and how each library runs it at its best."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from benchmarks.program import Program, Tensor, Work, clear_grad, grads

__all__ = ["COMPILED", "PEER", "compiled", "compiled_work", "functional", "is_ours", "torch_style"]

COMPILED: dict[str, Work] = {}


def compiled_work(
    title: str, *, rounds: int | None = None, needs: tuple[str, ...] = ()
) -> Callable[[Callable[[ModuleType], Program]], Callable[[ModuleType], Program]]:
    """Register a function from library to program, apart from `python -m benchmarks`."""

    def register(build: Callable[[ModuleType], Program]) -> Callable[[ModuleType], Program]:
        name = "compiled-" + build.__name__.replace("_", "-")
        COMPILED[name] = Work(name, title, build, needs, rounds)
        return build

    return register


def is_ours(torch: ModuleType) -> bool:
    """Whether it is the library under test."""
    return torch.__name__ == "pullback"


# The peer that this process is, where it is not just a library: "torch.compile".
PEER: list[str] = []


def compiled(torch: ModuleType, function: Any, *, fullgraph: bool = True) -> Any:
    """A function as it is compared: compiled by ours, and by torch where that is the peer."""
    if is_ours(torch):
        return torch.compile(function, fullgraph=fullgraph)
    return torch.compile(function) if "torch.compile" in PEER else function


def functional(
    torch: ModuleType,
    function: Callable[..., Tensor],
    inputs: list[Tensor],
    *,
    together: bool = True,
) -> Program:
    """The gradient as a function: `func.grad` compiled; torch by its fastest way."""
    numbers = tuple(range(len(inputs)))
    if is_ours(torch):
        given = [one.detach() for one in inputs]
        gradient = torch.compile(torch.func.grad(function, argnums=numbers), fullgraph=True)
        return Program(
            run=lambda _: gradient(*given), answer=lambda made: list(made), together=together
        )
    leaves = [one.detach().requires_grad_() for one in inputs]
    called = compiled(torch, function)
    return Program(
        run=lambda _: torch.autograd.grad(called(*leaves), leaves),
        answer=lambda made: list(made),
        together=together,
    )


def torch_style(
    torch: ModuleType, function: Callable[..., Tensor], leaves: list[Tensor]
) -> Program:
    """`loss = f(); loss.backward()`, with `f` compiled in ours."""
    called = compiled(torch, function)

    def run(nothing: None) -> None:
        clear_grad(leaves)
        called(*leaves).backward()

    return Program(run=run, answer=lambda _: grads(leaves), together=True)
