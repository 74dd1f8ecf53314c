"""Elementwise values computed by NumPy: what derived lowerings are checked with, and tests."""

from __future__ import annotations

from typing import Any

import numpy

from pullback.compiled.ir.values import Val

__all__ = ["NUMPY", "elementwise"]


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + numpy.exp(-x))


NUMPY: dict[str, Any] = {
    "abs": numpy.abs, "add": numpy.add, "and": numpy.logical_and, "ceil": numpy.ceil,
    "copy": lambda x: x, "copysign": numpy.copysign, "cos": numpy.cos, "div": numpy.divide,
    "eq": numpy.equal, "exp": numpy.exp, "expm1": numpy.expm1, "floor": numpy.floor,
    "ge": numpy.greater_equal, "gt": numpy.greater, "le": numpy.less_equal, "log": numpy.log,
    "log1p": numpy.log1p, "lt": numpy.less, "maximum": numpy.maximum, "minimum": numpy.minimum,
    "mul": numpy.multiply, "ne": numpy.not_equal, "neg": numpy.negative, "not": numpy.logical_not,
    "or": numpy.logical_or, "recip": numpy.reciprocal, "rint": numpy.rint, "sigmoid": _sigmoid,
    "rsqrt": lambda x: 1 / numpy.sqrt(x), "sign": numpy.sign, "sin": numpy.sin,
    "sqrt": numpy.sqrt, "sub": numpy.subtract, "tanh": numpy.tanh, "trunc": numpy.trunc,
    "floordiv": numpy.floor_divide, "remainder": numpy.remainder, "where": numpy.where,
    "xor": numpy.logical_xor,
    "acos": numpy.arccos, "acosh": numpy.arccosh, "asin": numpy.arcsin, "asinh": numpy.arcsinh,
    "atan": numpy.arctan, "atan2": numpy.arctan2, "atanh": numpy.arctanh, "cosh": numpy.cosh,
    "exp2": numpy.exp2, "fmod": numpy.fmod, "hypot": numpy.hypot, "log10": numpy.log10,
    "log2": numpy.log2, "pow": numpy.power, "sinh": numpy.sinh,
}  # fmt: skip


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
