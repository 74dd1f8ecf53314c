"""Operators that are functions of the C library, on so few elements that asking it is quickest."""

from __future__ import annotations

from typing import Any

from pullback.compiled.ir.builder import Builder
from pullback.compiled.ir.values import Val
from pullback.compiled.lower.rules import NotLowered, floating, lower
from pullback.operators.pointwise import powers
from pullback.operators.special import error_functions

__all__ = ["ask"]

# Elements, from which on NumPy's vectors make up for leaving the program and coming back: pow takes
# 15 ns an element in the library and 2.5 in NumPy, which takes 8 us to call from here.
_FEW = 512


def ask(b: Builder, word: str, *values: Val) -> Val:
    """A function of the library."""
    floating(*values)
    if max(one.size for one in values) > _FEW:
        raise NotLowered
    return b.ew(word, *values)


def _rule(word: str) -> Any:
    def rule(b: Builder, **given: Val) -> Val:
        return ask(b, word, *given.values())

    return rule


for _word in ("erfc", "lgamma"):  # which NumPy has not
    lower(_word)(_rule(_word))


@lower(error_functions.erf)
def _erf(b: Builder, input: Val) -> Val:
    floating(input)
    return b.ew("erf", input)


@lower(powers._pow_tensors)
def _power(b: Builder, input: Val, exponent: Val) -> Val:
    return ask(b, "pow", input, exponent)
