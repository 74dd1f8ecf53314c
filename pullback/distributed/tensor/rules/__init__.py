"""Rules that say how operators act on parts: by name, or by the kind of their declaration."""

from __future__ import annotations

from functools import cache

from pullback.distributed.tensor.rules import (
    images,
    lines,
    losses,
    pointwise,
    products,
    reductions,
    views,
)
from pullback.distributed.tensor.rules.losses import WRITTEN
from pullback.distributed.tensor.rules.pointwise import is_elementwise
from pullback.distributed.tensor.rules.reductions import AGAIN, dims_of
from pullback.distributed.tensor.sharding import Rule

__all__ = ["AGAIN", "RULES", "WRITTEN", "dims_of", "is_elementwise", "rule_of", "ruled"]

RULES: dict[str, Rule] = {
    **pointwise.RULES,
    **reductions.RULES,
    **products.RULES,
    **views.RULES,
    **lines.RULES,
    **losses.RULES,
    **images.RULES,
}


@cache
def rule_of(name: str) -> Rule | None:
    """The rule for an operator or its in-place form, by torch's name."""
    known = RULES.get(name) or RULES.get(name.removesuffix("_"))
    if known is not None:
        return known
    return pointwise.of_elements if is_elementwise(name) else None


def ruled() -> list[str]:
    """The names of all operators with a rule.

    >>> from pullback.distributed.tensor.rules import ruled
    >>> len(ruled()) > 250
    True
    """
    return sorted({*RULES, *pointwise.elementwise_names()})
