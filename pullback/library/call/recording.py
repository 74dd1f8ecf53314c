"""The graph: a call of a user's operator that autograd records, with its node and its history."""

from __future__ import annotations

from typing import Any

from pullback.autograd.function.apply import finish, start
from pullback.core.explain.cause import inherited
from pullback.core.mode import Mode, current
from pullback.core.tensor import Tensor
from pullback.library.call import fallback, kernels, returns
from pullback.library.call.binding import split
from pullback.library.call.executing import computed, kernel_mode, least
from pullback.library.call.node import node_class
from pullback.library.registry import Operator
from pullback.library.schema import Argument, tags


def recorded(
    operator: Operator, kernel: kernels.Chosen, values: list[Any], tensors: list[Tensor], mode: Mode
) -> Any:
    """Run the kernel, and give its results their history if an argument requires grad."""
    recording = mode.grad and not mode.inference
    tracked = recording and any(tensor.requires_grad for tensor in tensors)
    if tracked and operator.refuses_recording:
        raise tags.recorded_out(operator)
    if tracked and operator.schema.is_mutable:
        fallback.warn_of_write(operator, values)
    if not tracked:
        try:
            current.set(kernel_mode(mode))
            result = computed(operator, kernel, values)
        finally:
            current.set(mode)
        if mode.grad:
            _pass_cause_on(values, result)
        return result
    positional, keywords = split(operator.schema, values)
    flat_args = flattened(operator, positional)
    ctx = started(operator, positional, flat_args, values, mode)
    try:
        current.set(kernel_mode(mode))
        result = computed(operator, kernel, values)
        _set_up(operator, ctx, positional, keywords, result)
    finally:
        current.set(mode)
    return with_history(operator, ctx, flat_args, result, mode)


def _pass_cause_on(values: list[Any], result: Any) -> None:
    """Results would say that the kernel's no_grad is why they have no history."""
    cell = inherited(*values)
    for value in returns.flat(result):
        if isinstance(value, Tensor) and value._cell.__class__ is tuple:
            value._cell = cell


def started(
    operator: Operator,
    positional: tuple[Any, ...],
    flat_args: tuple[Any, ...],
    values: list[Any],
    mode: Mode,
    function: Any = None,
) -> Any:
    """The node of a call, with the edges that its arguments have before the kernel runs."""
    ctx = start(function or node_class(operator)._forward_cls, flat_args, mode)
    lists = [
        is_tensor_list(*pair) for pair in zip(operator.schema.positional, positional, strict=True)
    ]
    if any(lists):
        ctx._lengths = tuple(
            len(value) if listed else None for value, listed in zip(positional, lists, strict=True)
        )
        ctx.needs_input_grad = nested_needs(positional, ctx._lengths)
        # Even if all are tensors: gradients of lists have to be taken apart.
        ctx._is_tensor = tuple(isinstance(arg, Tensor) for arg in flat_args)
    ctx._least = least(operator, values)
    return ctx


def is_tensor_list(argument: Argument, value: Any) -> bool:
    """Whether an argument is a list whose elements have gradients of their own."""
    return value.__class__ is list and argument.type.is_tensor_like


def flattened(operator: Operator, positional: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments, tensors of lists one by one."""
    found: list[Any] = []
    for argument, value in zip(operator.schema.positional, positional, strict=True):
        if is_tensor_list(argument, value):
            found += value
        else:
            found.append(value)
    return tuple(found)


def nested_needs(positional: tuple[Any, ...], lengths: tuple[int | None, ...]) -> Any:
    """`ctx.needs_input_grad`: a bool for each argument, a list of them for lists of tensors."""
    return tuple(
        [isinstance(one, Tensor) and one.requires_grad for one in value]
        if length is not None
        else isinstance(value, Tensor) and value.requires_grad
        for value, length in zip(positional, lengths, strict=True)
    )


def _set_up(
    operator: Operator, ctx: Any, positional: tuple[Any, ...], keywords: dict[str, Any], result: Any
) -> None:
    formula = operator.formula
    if formula is None or formula.setup_context is None:
        return
    if keywords:
        formula.setup_context(
            ctx=ctx, inputs=positional, keyword_only_inputs=keywords, output=result
        )
    else:
        formula.setup_context(ctx=ctx, inputs=positional, output=result)


def with_history(
    operator: Operator, ctx: Any, flat_args: tuple[Any, ...], result: Any, mode: Mode
) -> Any:
    """The result, led to the node; what the call wrote to stays as it was."""
    schema = operator.schema
    ctx._out_lengths = tuple(
        len(one) if isinstance(one, list) else 1
        for one in (result if isinstance(result, tuple) else (result,))
    )
    if schema.is_view:
        ctx._is_pure_view = True
    function = type(ctx)._forward_cls
    if isinstance(result, Tensor):
        if schema.returns[0].is_write:
            return result
        return finish(function, ctx, flat_args, result, mode, split=False)
    if result is None:
        return None
    values = returns.flat(result)
    written = [
        one.is_write
        for one, length in zip(_each_return(operator), ctx._out_lengths, strict=True)
        for _ in range(length)
    ]
    # In the place of what was written stands None, so that numbers of gradients stay right.
    own = tuple(None if write else value for value, write in zip(values, written, strict=True))
    made = finish(function, ctx, flat_args, own, mode, split=False)
    made = [
        value if write else new for value, new, write in zip(values, made, written, strict=True)
    ]
    return returns.rebuilt(result, made)


def _each_return(operator: Operator) -> list[Any]:
    schema = operator.schema
    elements = getattr(schema.returns[0].type, "elements", None)
    return schema.returns if elements is None else [schema.returns[0]] * len(elements)
