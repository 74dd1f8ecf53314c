"""Registering kernels, formulas and rules on operators: what each may be registered for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.dtype import dtype
from pullback.library import registry
from pullback.library.call import node
from pullback.library.call.calling import write_call
from pullback.library.call.keys import IMPLICIT
from pullback.library.registry import Formula, Kernel, Operator
from pullback.operators.dispatch import dispatch


def kernel(operator: Operator, key: str, function: Callable[..., Any]) -> None:
    """Register a kernel under a key, in the place of any that was there."""
    if not callable(function):
        raise TypeError(
            f"{operator.qualname}: a kernel must be callable, got {type(function).__name__}."
        )
    operator.kernels[key] = Kernel(function, registry.where())
    operator.settle()


def renewed(operator: Operator, tags: list[Any]) -> None:
    """After an operator was defined again: its objects show and call the new definition."""
    operator.overload.__dict__.update(_schema=operator.schema, tags=tags)
    write_calls(operator)
    operator.settle()


def write_calls(operator: Operator) -> None:
    """Write the calls of all objects of an operator anew."""
    write_call(operator, type(operator.overload))
    if operator.definition_class is not None:
        write_call(operator, operator.definition_class)


def autograd(
    operator: Operator,
    backward: Callable[..., Any],
    setup_context: Callable[..., Any] | None,
    *,
    views: bool,
) -> None:
    """Register a backward formula; `views`: those of view operators are allowed."""
    schema = operator.schema
    if not callable(backward) or not (setup_context is None or callable(setup_context)):
        raise TypeError(f"{operator.qualname}: backward and setup_context must be callable.")
    for argument in schema.keyword_only:
        if argument.type.is_tensor_like:
            raise NotImplementedError(
                f"{operator.qualname}: the keyword-only argument {argument.name!r} is a tensor; "
                "only positional ones can have gradients. Move it before the `*`. "
                f"Declaration: {schema}"
            )
    tensors = sum(argument.type.is_tensor_like for argument in schema.arguments)
    is_pure_view = (
        views
        and schema.is_view
        and not schema.is_mutable
        and tensors == 1
        and len(schema.returns) == 1
        and schema.returns[0].type.text == "Tensor"
    )
    if schema.is_mutable or not schema.returns or (schema.is_view and not is_pure_view):
        raise RuntimeError(
            f"{operator.qualname} cannot get a backward formula: only operators that return their "
            "results, with no argument written to and none returned as a view, can be "
            "differentiated. Write a functional operator, and let this one call it. "
            f"Declaration: {schema}"
        )
    operator.formula = Formula(backward, setup_context, registry.where())
    node.set_backward(operator)
    operator.settle()


def autocast(operator: Operator, device_type: str, cast_inputs: Any) -> None:
    """Register the dtype for autocast regions of a type of device."""
    if not isinstance(device_type, str):
        raise ValueError(f"device_type must be a str, got {type(device_type).__name__}.")
    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"autocast knows the device types 'cpu' and 'cuda', got {device_type!r}.")
    if not isinstance(cast_inputs, dtype):
        raise ValueError(f"cast_inputs must be a dtype, got {type(cast_inputs).__name__}.")
    operator.autocast[device_type] = cast_inputs
    operator.settle()


def torch_dispatch(overload: Any, cls: type, function: Callable[..., Any]) -> None:
    """Register what replaces a class's `__torch_dispatch__` for one operator."""
    dispatch.RULES[overload, cls] = function


def fake(operator: Operator, function: Callable[..., Any], *, allow_override: bool) -> None:
    """Register a fake implementation."""
    if IMPLICIT in operator.kernels:
        raise RuntimeError(
            f"{operator.qualname} is composite: it runs other operators, whose fake "
            "implementations give the shape of its result. It needs none of its own."
        )
    if operator.fake is not None and operator.kind == "define" and not allow_override:
        raise RuntimeError(
            f"{operator.qualname} has a fake implementation, registered at "
            f"{registry.place(operator.fake.where)}. Pass allow_override=True to replace it."
        )
    if "Meta" in operator.kernels and not allow_override:
        raise RuntimeError(
            f"{operator.qualname} has a kernel for the key Meta, registered at "
            f"{registry.place(operator.kernels['Meta'].where)}, which does the same."
        )
    operator.fake = Kernel(function, registry.where())


def vmap(operator: Operator, function: Callable[..., Any]) -> None:
    """Register a rule for batches."""
    if any(argument.type.is_tensor_like for argument in operator.schema.keyword_only):
        raise NotImplementedError(
            f"{operator.qualname} cannot have a rule for batches: it has a keyword-only tensor. "
            "Make it positional."
        )
    operator.vmap_rule = Kernel(function, registry.where())
