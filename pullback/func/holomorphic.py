"""Derivatives by complex numbers: what `holomorphic=True` asks for, and its check."""

from __future__ import annotations

import math
from typing import Any

import numpy

from pullback.core.tensor import Tensor, wrap
from pullback.func.taylor import expanded
from pullback.operators.create.sizes import zeros_like
from pullback.operators.shape.joining import stack
from pullback.transforms.arguments import Chosen, name_of
from pullback.transforms.batched import exposed, levels_of
from pullback.transforms.mapping import over_batch

__all__ = ["check_holomorphic", "complex_inputs", "not_holomorphic"]

_HALFWAY = (1 + 1j) / math.sqrt(2)


def complex_inputs(transform: str, func: Any, leaves: list[Any], *, holomorphic: bool) -> bool:
    """Whether the inputs are complex, which `holomorphic` must say as well, of all of them."""
    found = [one for one in leaves if one.dtype.is_complex]
    if not found and not holomorphic:
        return False
    if found and not holomorphic:
        raise RuntimeError(
            f"{transform}({name_of(func)}): an input is {found[0].dtype}. If the function is "
            "holomorphic, say holomorphic=True; else use torch.view_as_real, or vjp and jvp."
        )
    if len(found) != len(leaves):
        raise RuntimeError(
            f"{transform}({name_of(func)}): holomorphic=True is for complex inputs, one is real."
        )
    return True


def not_holomorphic(transform: str, func: Any) -> RuntimeError:
    """What to say where a derivative in an imaginary direction is another than it must be."""
    return RuntimeError(
        f"{transform}: {name_of(func)} is not holomorphic here, though holomorphic=True said so: "
        "its derivative in an imaginary direction is not i times that in the real one. Use "
        "torch.view_as_real, or vjp and jvp."
    )


def check_holomorphic(transform: str, func: Any, chosen: Chosen) -> None:
    """Refuse a function whose derivatives, the second ones too, are not complex linear.

    Along w times a random direction, with w halfway between 1 and i, the first is w times and the
    second i times what it is along that direction; conjugates turn the other way.
    """
    random = numpy.random.default_rng(0)
    directions = []
    for leaf in chosen.leaves:
        one = random.uniform(0.5, 1.5, tuple(leaf.shape)) * random.choice([-1, 1], leaf.shape)
        directions.append(wrap(numpy.stack([one, _HALFWAY * one])).to(leaf.dtype))

    def along(*direction: Any) -> list[Any]:
        terms = [stack([one, zeros_like(one)]) for one in direction]
        outputs, _, rows = expanded(transform, func, chosen.replaced, chosen.leaves, terms)
        if not all(one.dtype.is_complex for one in outputs):
            raise not_holomorphic(transform, func)
        return rows

    for rows in over_batch(along, directions, 2, for_tangents=True):
        for order, factor in ((0, _HALFWAY), (1, 1j)):
            plain, turned = (_whole(rows[number][order]) for number in (0, 1))
            scale = float(plain.abs().max()) if plain.numel() else 0.0
            apart = float((turned - factor * plain).abs().max()) if plain.numel() else 0.0
            if apart > 1e-3 * max(scale, float(turned.abs().max()) if apart else 0.0):
                raise not_holomorphic(transform, func)


def _whole(one: Any) -> Tensor:
    """All examples of what is mapped by vmap around the call."""
    kept: Tensor = exposed(one.detach(), sorted(levels_of(one), key=lambda level: level.number))
    return kept
