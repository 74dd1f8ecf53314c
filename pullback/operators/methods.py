"""Makes operators methods of Tensor: declared ones by their declaration, plain functions of operators
by the mark `@method`, Python's signs and other spellings by the tables below.
"""

from __future__ import annotations

from pullback.core.tensor import Tensor
from pullback.operators.declare import METHODS, OPERATORS
from pullback.operators.inplace import inplace_of

# Python's sign -> the method behind it.
SIGNS = {
    "__add__": "add",
    "__radd__": "add",
    "__sub__": "sub",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
}

# Other name -> the method it is.
ALIASES: dict[str, str] = {
    "multiply": "mul",
    "subtract": "sub",
}


def attach_methods() -> None:
    """Give Tensor its methods; called once, when the package is imported."""
    for op in OPERATORS.values():
        if op.method:
            setattr(Tensor, op.name, op.function)
        if op.inplace:
            setattr(Tensor, f"{op.name}_", inplace_of(op.function))
    for name, function in METHODS.items():
        setattr(Tensor, name, function)
    for table in (SIGNS, ALIASES):
        for name, target in table.items():
            if hasattr(Tensor, target):
                setattr(Tensor, name, getattr(Tensor, target))
            if hasattr(Tensor, f"{target}_") and table is ALIASES:
                setattr(Tensor, f"{name}_", getattr(Tensor, f"{target}_"))
