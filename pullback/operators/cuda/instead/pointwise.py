"""Activations in one launch: what the host does in several passes over blocks."""

from __future__ import annotations

from typing import Any

from pullback.core.errors import unsupported
from pullback.core.home import path_of
from pullback.operators.cuda.found import found
from pullback.operators.cuda.fused import Fused
from pullback.operators.cuda.retarget import INSTEAD

__all__ = ["enter"]

_INSIDE = "(T(0.7978845608028654) * x{i} * (T(1) + T(0.044715) * x{i} * x{i}))"
_SLOPE = "T(0.7978845608028654) * (T(1) + T(0.134145) * x1 * x1)"
_BELOW = "(T(0.5) * erfc(x{i} * T(-0.7071067811865476)))"
_SIGMOID = "(T(1) / (T(1) + exp(-x{i})))"
# Kernels over blocks, by where they are defined: operands in the order of the call.
_EXPRESSIONS = {
    "nn.activation.gelu._by_tanh": "(T(0.5) * x0 * (T(1) + tanh(" + _INSIDE.format(i=0) + ")))",
    "nn.activation.gelu._tanh_slope": (
        "(x0 * T(0.5) * (T(1) + tanh({t})) * (T(1) + x1 * (T(1) - tanh({t})) * {s}))".format(
            t=_INSIDE.format(i=1), s=_SLOPE
        )
    ),
    "nn.activation.gelu._exact": f"(x0 * {_BELOW.format(i=0)})",
    "nn.activation.gelu._exact_slope": (
        f"(x0 * ({_BELOW.format(i=1)} + x1 * T(0.3989422804014327) * exp(T(-0.5) * x1 * x1)))"
    ),
    "pointwise.trigonometry._tanh_slope": "(x0 * (T(1) - x1 * x1))",
    "pointwise.exponentials._sigmoid_slope": "(x0 * x1 * (T(1) - x1))",
    "pointwise.exponentials.sigmoid_kernel": _SIGMOID.format(i=0),
    "nn.activation.smooth._silu": f"(x0 * {_SIGMOID.format(i=0)})",
    "nn.activation.smooth._silu_slope": (
        "(x0 * {s} * (T(1) + x1 * (T(1) - {s})))".format(s=_SIGMOID.format(i=1))
    ),
}
_PLACE = "pullback.operators."


def _fused(name: str, expression: str, count: int, otherwise: Any) -> Any:
    known = found.library.expressions.get(name)
    if known is None:
        known = Fused(found.cupy, expression, count, otherwise)
        found.library.expressions[name] = known
    return known


def _in_blocks(xp: Any, kernel: Any, x: Any, *others: Any, **machine_code: Any) -> Any:
    """A kernel over blocks: by its expression where it has one; the host's machine code is not."""
    from pullback.operators.arrays import blocks

    original = found.library.original(blocks.elementwise)
    name = path_of(kernel).removeprefix(_PLACE)
    expression = _EXPRESSIONS.get(name)
    if expression is None:
        return original(xp, kernel, x, *others)

    def otherwise(*arrays: Any) -> Any:
        return original(xp, kernel, *arrays)

    return _fused(name, expression, 1 + len(others), otherwise)(x, *others)


def _tanh_adjoint(xp: Any, slope: Any, value: Any) -> Any:
    made = _fused("tanh adjoint", "(x0 * (T(1) - x1 * x1))", 2, lambda g, y: g * (1 - y * y))
    return made(slope, value)


def _relu(xp: Any, input: Any) -> Any:
    if input.dtype.kind in "bc":
        raise unsupported("relu", input)
    expression = "((x0 > T(0) || x0 != x0) ? x0 : T(0))"
    return _fused("relu", expression, 1, lambda x: xp.cupy.maximum(x, x.dtype.type(0)))(input)


def enter() -> None:
    """Into the table."""
    INSTEAD.update(
        {
            _PLACE + "arrays.blocks.elementwise": _in_blocks,
            _PLACE + "pointwise.trigonometry._real_tanh_adjoint": _tanh_adjoint,
            _PLACE + "pointwise.extrema.relu": _relu,
        }
    )
