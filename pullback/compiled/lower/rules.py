"""The table of lowerings: of an operator, how its call becomes values.

A rule takes the builder and the call's arguments by name: values where tensors were, options as
they are. `NotLowered` sends a call to its eager kernel instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val
from pullback.operators.declare import Op

__all__ = ["FLOATING", "RULES", "STOPPING", "STORED", "NotLowered", "R", "Rule", "constant",
           "floating", "key_of", "lower"]  # fmt: skip

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)
RULES: dict[str, Rule] = {}
# Of back ends that have words for pooling, and that can stop at an index that names nothing.
STORED: dict[str, Rule] = {}
STOPPING: set[str] = set()  # of those: which stop
FLOATING = ("f4", "f8")


class NotLowered(Exception):  # noqa: N818 (no error: the eager kernel does it)
    """The call stays an eager kernel."""


def lower(*operators: Any, stored: bool = False) -> Callable[[R], R]:
    """Make a function the rule of these operators; with `stored`, on machine code alone.

    They are named as objects, so that one that was renamed fails when this is imported; those that
    have names of several (`_word` of a table) as keys of `OPERATORS`, which a test looks up.
    """

    def enter(rule: R) -> R:
        for one in operators:
            table = STORED if stored else RULES
            table[one if isinstance(one, str) else key_of(one.op)] = rule
        return rule

    return enter


def key_of(op: Op) -> str:
    """What a declaration is called among all: `nn.functional.gelu`."""
    return f"{op.space}.{op.name}" if op.space else op.name


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
