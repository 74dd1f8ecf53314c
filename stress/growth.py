"""Nothing waits for the collector: whole programs, and transforms nested three deep.

Each runs twice to load what it needs, then twice with the collector off; what the collector finds
afterwards hung in a cycle, and would have grown for as long as it did not run.
"""

from __future__ import annotations

import gc
import itertools
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pullback as torch
from pullback.func import functionalize, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from stress.report import Report
from stress.works import WORKS

# Events of a profile know what they are parts of; a compiled program's tables know their entry.
KNOWING_THEMSELVES = frozenset({"profiled", "compiled_step"})


def _point() -> Any:
    return torch.linspace(0.1, 1.0, 3, dtype=torch.float64)


# Each takes a function of a vector to another function of a vector.
TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: grad(lambda x: f(x).sum()),
    "vjp": lambda f: lambda x: vjp(f, x)[1](f(x))[0],
    "jvp": lambda f: lambda x: jvp(f, (x,), (_point(),))[1],
    "jacrev": lambda f: lambda x: jacrev(f)(x).sum(0),
    "jacfwd": lambda f: lambda x: jacfwd(f)(x).sum(0),
    "hessian": lambda f: lambda x: hessian(lambda y: f(y).sum())(x).sum(0),
    "linearize": lambda f: lambda x: linearize(f, x)[1](_point()),
    "vmap": lambda f: lambda x: vmap(f)(torch.stack([x, x])).sum(0),
    "functionalize": functionalize,
}


def nested(names: tuple[str, ...]) -> Callable[[], Any]:
    """A call of a function under transforms, the outermost first."""
    function: Any = lambda x: x * x.sin()  # noqa: E731 (replaced below by what is made of it)
    for name in reversed(names):
        function = TRANSFORMS[name](function)
    return lambda: function(_point())


def garbage(run: Callable[[], Any]) -> int:
    """How many objects only the collector could free after a run."""
    run()
    run()
    gc.collect()
    gc.disable()
    try:
        run()
        run()
        return gc.collect()
    finally:
        gc.enable()


def _subjects() -> Iterator[tuple[str, Callable[[], Any]]]:
    for name, work in WORKS.items():
        if name not in KNOWING_THEMSELVES:
            yield name, work
    for depth in (1, 2, 3):
        for names in itertools.product(TRANSFORMS, repeat=depth):
            yield " of ".join(names), nested(names)


def run(seconds: float, seed: int, calls: int | None = None) -> Report:
    """Programs first, then nestings in an order that the seed shuffles, until the time is over."""
    report = Report("growth", seed)
    end = time.monotonic() + seconds
    subjects = list(_subjects())
    head = len(WORKS) - len(KNOWING_THEMSELVES)
    rest = subjects[head:]
    random.Random(seed).shuffle(rest)
    gc.collect()
    gc.freeze()  # what is there already need not be looked at again each time
    try:
        for name, work in [*subjects[:head], *rest][:calls]:
            if time.monotonic() > end:
                break
            report.counts["tried"] += 1
            if left := garbage(work):
                report.found(f"{name}: {left} objects", name)
    finally:
        gc.unfreeze()
    return report
