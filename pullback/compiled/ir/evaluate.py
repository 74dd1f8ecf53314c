"""Elementwise values computed by NumPy: what derived lowerings are checked with, and tests."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.compiled.ir.values import Val
from pullback.operators.formula.words import WORDS

__all__ = ["NUMPY", "elementwise"]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + numpy.exp(-x))


NUMPY: dict[str, Any] = {
    **{name: getattr(numpy, word.numpy) for name, word in WORDS.items() if word.numpy},
    "copy": lambda x: x,
    "floordiv": numpy.floor_divide,
    "remainder": numpy.remainder,
    "rsqrt": lambda x: 1 / numpy.sqrt(x),
    "sigmoid": _sigmoid,
}


def elementwise(values: list[Val], wanted: Val, given: dict[int, Any]) -> Any:
    """The array of `wanted`, from arrays of the inputs by number; KeyError where NumPy cannot."""
    known: dict[int, Any] = dict(given)
    for v in values:
        if v.id in known:
            continue
        if v.op == "const":
            number = float("nan") if v.attr[0] == "nan" else v.attr[0]
            known[v.id] = numpy.array(number, _dtype(v.dtype))
        elif v.op == "expand":
            known[v.id] = numpy.broadcast_to(known[v.ins[0].id], v.shape)
        elif v.op == "cast":
            known[v.id] = known[v.ins[0].id].astype(_dtype(v.dtype))
        elif v.op == "powi":
            known[v.id] = known[v.ins[0].id] ** v.attr
        else:
            known[v.id] = NUMPY[v.op](*[known[one.id] for one in v.ins])
        if v is wanted:
            break
    return known[wanted.id]


def _dtype(name: str) -> Any:
    return numpy.dtype("?" if name == "b1" else name)
