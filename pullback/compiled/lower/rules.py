"""The table of lowerings: an operator's name -> how its call becomes values.

A rule takes the builder and the call's arguments by name: values where tensors were, options as
they are. `NotLowered` sends a call to its eager kernel instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val

__all__ = ["FLOATING", "RULES", "NotLowered", "Rule", "constant", "floating", "lower"]

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)
RULES: dict[str, Rule] = {}
FLOATING = ("f4", "f8")


class NotLowered(Exception):  # noqa: N818 (no error: the eager kernel does it)
    """The call stays an eager kernel."""


def lower(*names: str) -> Callable[[R], R]:
    """Make a function the rule of these operators."""

    def enter(rule: R) -> R:
        for name in names:
            RULES[name] = rule
        return rule

    return enter


def floating(*values: Val) -> None:
    """Go on only with float32 or float64, the same in all."""
    if any(one.dtype != values[0].dtype or one.dtype not in FLOATING for one in values):
        raise NotLowered


def constant(b: Builder, number: float, like: Val) -> Val:
    """A number in the dtype of a value."""
    return b.const(number, like.dtype)


def dims_of(dim: Any, ndim: int) -> tuple[int, ...]:
    """Dimensions that a reduction goes over; none named means all."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    return tuple(d % ndim for d in ((dim,) if isinstance(dim, int) else dim))


def count_over(x: Val, dims: tuple[int, ...]) -> int:
    """How many elements are taken together."""
    return math.prod(x.shape[d] for d in dims)
