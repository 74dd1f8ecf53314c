"""Checks of what a backward function of the older interface returned: a dict by argument name."""

from __future__ import annotations

from typing import Any

from pullback.core.tensor import Tensor
from pullback.library.registry import Kernel, Operator, place

TENSOR = "Tensor"


def described(value: Any) -> Any:
    """What an argument was, without keeping it alive: the name of its type, or a list of them."""
    if isinstance(value, list):
        return [described(one) for one in value]
    return TENSOR if isinstance(value, Tensor) else type(value).__name__.replace("NoneType", "None")


def by_position(
    operator: Operator, backward: Kernel, values: list[Any], returned: Any
) -> tuple[Any, ...]:
    """The gradients in the order of the arguments, of which `values` are descriptions."""
    where = f"{operator.qualname}: the backward function at {place(backward.where)}"
    arguments = operator.schema.arguments
    expected = [argument.name for argument in arguments if argument.type.is_tensor_like]
    if not isinstance(returned, dict):
        raise RuntimeError(
            f"{where} must return a dict with the gradients of {expected} by name, but returned a "
            f"{type(returned).__name__}."
        )
    if set(returned) != set(expected):
        raise RuntimeError(
            f"{where} must return a dict with the keys {expected}, one for each argument that "
            f"takes tensors, but its keys are {sorted(returned, key=str)}."
        )
    gradients: list[Any] = []
    for argument, value in zip(arguments, values, strict=True):
        if argument.name not in returned:
            gradients.append(None)
        elif argument.type.is_tensor_list and isinstance(value, list):
            gradients.append(_of_list(where, argument.name, value, returned[argument.name]))
        else:
            gradients.append(_of_one(where, argument.name, value, returned[argument.name]))
    return tuple(gradients)


def _of_one(where: str, name: str, value: Any, gradient: Any) -> Any:
    if gradient is None:
        return None
    if not isinstance(gradient, Tensor):
        raise RuntimeError(
            f"{where} returned a {type(gradient).__name__} as the gradient of {name!r}; it must be "
            "a Tensor or None."
        )
    if value != TENSOR:
        raise RuntimeError(
            f"{where} returned a Tensor as the gradient of {name!r}, but the argument was {value} "
            "and no tensor. Return None for it."
        )
    return gradient


def _of_list(where: str, name: str, value: list[Any], gradient: Any) -> list[Any]:
    if not isinstance(gradient, list | tuple):
        raise RuntimeError(
            f"{where} returned a {type(gradient).__name__} as the gradient of {name!r}, which is a "
            "list of tensors; return a list."
        )
    if len(gradient) != len(value):
        raise RuntimeError(
            f"{where} returned {len(gradient)} gradients for {name!r}, which is a list of "
            f"{len(value)} tensors."
        )
    for index, (one, given) in enumerate(zip(gradient, value, strict=True)):
        if one is None:
            continue
        if not isinstance(one, Tensor):
            raise RuntimeError(
                f"{where} returned a {type(one).__name__} at index {index} of the gradients of "
                f"{name!r}; each must be a Tensor or None."
            )
        if given != TENSOR:
            raise RuntimeError(
                f"{where} returned a Tensor at index {index} of the gradients of {name!r}, but the "
                "argument has no tensor there."
            )
    return list(gradient)
