"""What a work is: a program that runs unchanged on both libraries, and how one is registered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

Tensor: TypeAlias = Any  # of whichever library runs the work


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Program:
    """One work, set up on one library.

    `run` is timed and gets what `prepare`, not timed, made. What `prepare` made is dropped while
    the clock runs, for freeing a graph belongs to its backward; what `run` returns, after.
    `together` programs prepare nothing and are timed without a look at the clock between calls,
    which takes half as long as a small operator. `answer` names tensors that both libraries must
    agree on, given what `run` returned.
    """

    run: Callable[[Any], Any]
    answer: Callable[[Any], list[Tensor]]
    prepare: Callable[[], Any] = _nothing
    together: bool = False


@dataclass(frozen=True)
class Work:
    """A registered work; `needs` are the names without which a library cannot run it."""

    name: str
    title: str
    build: Callable[[ModuleType], Program]
    needs: tuple[str, ...]
    rounds: int | None  # at most so many, for works that take long

    def missing_from(self, library: ModuleType) -> list[str]:
        """The needed names that the library does not have."""
        return [name for name in self.needs if not has(library, name)]


WORKS: dict[str, Work] = {}


def work(
    title: str, *, needs: tuple[str, ...] = (), rounds: int | None = None
) -> Callable[[Callable[[ModuleType], Program]], Callable[[ModuleType], Program]]:
    """Register a function from library to program; `def fan_in(torch)` is the work `fan-in`."""

    def register(build: Callable[[ModuleType], Program]) -> Callable[[ModuleType], Program]:
        name = build.__name__.replace("_", "-")
        if name in WORKS:
            raise ValueError(f"two works are called {name}: rename one of them")
        WORKS[name] = Work(name, title, build, needs, rounds)
        return build

    return register


def has(library: ModuleType, dotted: str) -> bool:
    """Whether a name such as `nn.functional.conv2d` leads somewhere."""
    found: Any = library
    for part in dotted.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def clear_grad(leaves: list[Tensor]) -> None:
    """Forget the gradients of an earlier run, so that each run starts like the first."""
    for leaf in leaves:
        leaf.grad = None


def grads(leaves: list[Tensor]) -> list[Tensor]:
    """The gradients that a backward left."""
    return [leaf.grad for leaf in leaves]
