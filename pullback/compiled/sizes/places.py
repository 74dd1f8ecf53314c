"""Which sizes of a call vary: those that differ from an earlier one, or that the user marked.

Numbers among the arguments vary as sizes do: a learning rate, a temperature, a count of steps.
"""

from __future__ import annotations

import math
from typing import Any

from pullback.compiled.runtime.guards import Guards
from pullback.core.tensor import Tensor

__all__ = ["NUMBER", "SMALLEST", "Place", "differing", "is_number", "is_word", "marked", "standing"]

SMALLEST = 2  # sizes 0 and 1 have programs of their own: broadcasting asks for 1

_LEAST_WORD = -(2**63)
NUMBER = -1  # in place of a dimension: the argument is itself a number
Place = tuple[int, int]  # number of the argument, dimension


def differing(guards: Guards, leaves: list[Any]) -> set[Place] | None:
    """The sizes in which a call differs from one that a program was made for.

    None where it differs in more, or where a size is too small to vary.
    """
    places: set[Place] = set()
    for number, (leaf, wanted) in enumerate(zip(leaves, guards.leaves, strict=True)):
        if wanted[0] is None or not isinstance(leaf, Tensor):
            if wanted[0] is None and is_number(leaf, wanted[1]) and leaf != wanted[1]:
                places.add((number, NUMBER))
            continue
        shape = leaf._array.shape
        if len(shape) != len(wanted[2]) or not all(type(n) is int for n in shape):
            return None  # a nested tensor has components of different sizes
        for dim, (now, before) in enumerate(zip(shape, wanted[2], strict=True)):
            if now != before:
                if min(now, before) < SMALLEST or dim in _fixed(leaf):
                    return None
                places.add((number, dim))
    return places


def is_number(leaf: Any, known: Any) -> bool:
    """Whether an argument is a number of the same kind as another, so that it may vary.

    Zeros have programs of their own: they are equal, and have signs.
    """
    if leaf.__class__ is not known.__class__:
        return False
    if leaf.__class__ is float:
        return math.isfinite(leaf) and math.isfinite(known) and leaf != 0 and known != 0
    return leaf.__class__ is int and min(leaf, known) >= SMALLEST and is_word(max(leaf, known))


def is_word(number: Any) -> bool:
    """Whether a program can take a number: a whole one beyond 64 bits is an error in eager."""
    return number.__class__ is not int or _LEAST_WORD <= number < -_LEAST_WORD


def standing(leaves: list[Any], place: Place) -> Any:
    """The size, or number, that stands at a place of the arguments."""
    number, dim = place
    return leaves[number] if dim == NUMBER else leaves[number]._array.shape[dim]


def marked(leaves: list[Any], *, every: bool) -> set[Place]:
    """The sizes that the user said vary: by `mark_dynamic`, or all by `dynamic=True`."""
    places: set[Place] = set()
    for number, leaf in enumerate(leaves):
        if not isinstance(leaf, Tensor):
            continue
        chosen = getattr(leaf, "_dynamo_dynamic_indices", None) or set()
        for dim, size in enumerate(leaf._array.shape):
            if size >= SMALLEST and dim not in _fixed(leaf) and (every or dim in chosen):
                places.add((number, dim))
    return places


def _fixed(leaf: Tensor) -> set[int]:
    return getattr(leaf, "_dynamo_static_indices", None) or set()
