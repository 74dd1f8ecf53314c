"""What a kernel returned, held against the returns that the schema declares."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.library.call.binding import REFUSED, converter
from pullback.library.registry import Operator
from pullback.library.schema.types import TensorType, TupleType


def checked(operator: Operator, raw: Any) -> Any:
    """The result as callers get it: a tuple for several returns, lists where lists are declared."""
    returns = operator.schema.returns
    if not returns:
        if raw is not None:
            raise RuntimeError(
                f"{operator.qualname} declares no returns, but its kernel returned {_shown(raw)}. "
                "Return None, or declare what is returned."
            )
        return None
    if len(returns) == 1:
        kind = returns[0].type
        if kind.__class__ is TensorType and raw.__class__ is Tensor:
            return raw
        if not isinstance(kind, TupleType):
            return _one(operator, raw, kind, "")
        kinds = list(kind.elements)
    else:
        kinds = [one.type for one in returns]
    if not isinstance(raw, tuple | list):
        raise TypeError(
            f"{operator.qualname} declares {len(kinds)} returns, but its kernel returned one "
            f"value, {_shown(raw)}. Return a tuple of {len(kinds)}."
        )
    if len(raw) != len(kinds):
        raise RuntimeError(
            f"{operator.qualname} declares {len(kinds)} returns, but its kernel returned "
            f"{len(raw)}. Declaration: {operator.schema}"
        )
    pairs = enumerate(zip(raw, kinds, strict=True))
    return tuple(_one(operator, value, kind, f"return {i} of ") for i, (value, kind) in pairs)


def _one(operator: Operator, value: Any, kind: Any, which: str) -> Any:
    if kind.__class__ is TensorType:
        undefined = value is None and operator.kind == "define"
        made = value if isinstance(value, Tensor) or undefined else REFUSED
    else:
        made = converter(kind)(value)
    if made is REFUSED:
        raise RuntimeError(
            f"{which}{operator.qualname} is declared as {kind}, but its kernel returned "
            f"{_shown(value)}. Declaration: {operator.schema}"
        )
    return made


def _shown(value: Any) -> str:
    text = repr(value)
    text = text if len(text) <= 120 else text[:117] + "..."
    return f"{text} of type {type(value).__name__}"


def flat(values: Any) -> list[Any]:
    """The values of a result or of arguments, those in lists one by one."""
    if not isinstance(values, tuple | list):
        return [values]
    found: list[Any] = []
    for value in values:
        if isinstance(value, list | tuple):
            found.extend(value)
        else:
            found.append(value)
    return found


def rebuilt(model: Any, values: Any) -> Any:
    """`values`, one for each of `flat(model)`, in the structure of `model`."""
    if not isinstance(model, tuple | list):
        return values[0]
    left = iter(values)
    made: list[Any] = [
        [next(left) for _ in one] if isinstance(one, list | tuple) else next(left) for one in model
    ]
    return tuple(made) if isinstance(model, tuple) else made
