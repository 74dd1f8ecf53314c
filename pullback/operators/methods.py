"""Makes operators methods of Tensor.

Declared ones by their declaration, plain functions of operators by the mark `@method`, special
methods, properties and other spellings by the tables below.
"""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.operators import (
    convert,
    copying,
    exchange,
    fills,
    indexing,
    legacy,
    metadata,
    printing,
    reshape_inplace,
    signs,
)
from pullback.operators.complex import imag, real
from pullback.operators.declare import METHODS, OPERATORS
from pullback.operators.inplace import inplace_of
from pullback.operators.products import matmul
from pullback.operators.shape import conj_transpose, matrix_transpose, reverse_dims

# Other name -> the method it is; the in-place form comes along.
ALIASES: dict[str, str] = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "divide": "div",
    "fix": "trunc",
    "ger": "outer",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "moveaxis": "movedim",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
    "swapaxes": "transpose",
    "swapdims": "transpose",
}

PROPERTIES: dict[str, Any] = {
    **metadata.PROPERTIES,
    "T": reverse_dims,
    "mT": matrix_transpose,
    "H": conj_transpose,
    "mH": conj_transpose,
    "real": property(real, lambda self, value: real(self).copy_(value)),
    "imag": property(imag, lambda self, value: imag(self).copy_(value)),
}

# Families whose operators are methods alone register themselves when imported.
_METHODS_ONLY = (fills, reshape_inplace)

_SPECIAL = (
    convert.DUNDERS,
    copying.DUNDERS,
    exchange.DUNDERS,
    indexing.DUNDERS,
    legacy.DUNDERS,
    printing.DUNDERS,
    signs.SIGNS,
    {"__matmul__": matmul, "__rmatmul__": lambda self, other: matmul(other, self)},
)


def attach_methods() -> None:
    """Give Tensor its methods; called once, when the package is imported."""
    for op in OPERATORS.values():
        if op.method:
            setattr(Tensor, op.name, op.function)
        if op.inplace and f"{op.name}_" not in METHODS:
            setattr(Tensor, f"{op.name}_", inplace_of(op.function))
    for table in (METHODS, *_SPECIAL):
        for name, function in table.items():
            setattr(Tensor, name, function)
    for name, target in ALIASES.items():
        for end in ("", "_"):
            if hasattr(Tensor, target + end):
                setattr(Tensor, name + end, getattr(Tensor, target + end))
    for name, getter in PROPERTIES.items():
        attribute = getter if isinstance(getter, property) else property(getter)
        setattr(Tensor, name, attribute)
