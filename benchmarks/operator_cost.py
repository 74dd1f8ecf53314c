"""What an operator of a user costs against a built-in one that does the same, on one library."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType

import numpy as np

from benchmarks.program import Tensor
from benchmarks.works.operators import NEEDS as NEEDS
from benchmarks.works.operators import defined

CALLS = 200


def operator_cost(torch: ModuleType, quick: bool) -> dict[str, float]:
    """Time of a chain of users' products over one of built-in products, forward and backward."""
    product = defined(torch)
    return {
        "small": _ratio(torch, product, 1000, quick=quick),
        "tiny": _ratio(torch, product, 10, quick=quick),
    }


def _ratio(torch: ModuleType, product: Callable[..., Tensor], size: int, *, quick: bool) -> float:
    rng = np.random.default_rng(5)
    x = torch.tensor(rng.standard_normal(size), requires_grad=True)
    w = torch.tensor(rng.uniform(0.99, 1.01, size), requires_grad=True)

    def chain(multiply: Callable[..., Tensor]) -> None:
        out = x
        for _ in range(CALLS):
            out = multiply(out, w)
        out.sum().backward()

    def builtin(a: Tensor, b: Tensor) -> Tensor:
        return a * b

    times: dict[Callable[..., Tensor], list[float]] = {product: [], builtin: []}
    for _ in range(2 if quick else 60):  # in turn, so that both meet the same disturbances
        for multiply, measured in times.items():
            start = time.process_time()
            chain(multiply)
            measured.append(time.process_time() - start)
    return min(times[product]) / min(times[builtin])
