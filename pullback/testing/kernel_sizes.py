"""Kernels without the sizes of their conditions, for tests that reach one by few numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pullback.operators.choice import rewrite_choices
from pullback.operators.conditions import Condition
from pullback.operators.declare import Op
from pullback.operators.kernels import Kernel

__all__ = ["only_kernels"]


@contextmanager
def only_kernels(wanted: Callable[[Kernel], bool], *functions: Any) -> Iterator[None]:
    """Inside, these operators have the `wanted` ones of their kernels alone, at all sizes."""
    ops: list[Op] = [one.op for one in functions]
    before = [op.kernels for op in ops]
    try:
        for op in ops:
            op.kernels = tuple([_of_any_size(one) for one in op.kernels if wanted(one)])
        rewrite_choices()
        yield
    finally:
        for op, kernels in zip(ops, before, strict=True):
            op.kernels = kernels
        rewrite_choices()


def _of_any_size(kernel: Kernel) -> Kernel:
    compared = tuple(f"{what} " for what, _ in kernel.when.limits)
    asked = [one for one in kernel.when.questions if not one.startswith(compared)]
    made = copy.copy(kernel)
    asked = asked if compared else [*kernel.when.questions]
    made.when = Condition(*asked, scope=kernel.when.scope, facts=kernel.when.facts)
    return made
