"""Functions whose arguments and results may be lists of tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pullback.autograd.function import Function
from pullback.autograd.function.apply import missing_setup_context
from pullback.core.tensor import Tensor

__all__ = ["supports_tensorlist"]


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, Tensor) for one in value)


def _flat(values: Any) -> tuple[list[Any], list[int | None]]:
    """All values in a row, and the length of each list (None: was no list)."""
    row: list[Any] = []
    lengths: list[int | None] = []
    for value in values:
        listed = _is_list(value)
        row += value if listed else [value]
        lengths.append(len(value) if listed else None)
    return row, lengths


def _nested(row: Any, lengths: list[int | None]) -> list[Any]:
    left = iter(row)
    return [next(left) if n is None else [next(left) for _ in range(n)] for n in lengths]


class _Call:
    """How the arguments and results of one call are nested."""

    inputs: list[int | None]
    outputs: list[int | None]
    is_tuple: bool


@contextmanager
def _nested_needs(ctx: Any, lengths: list[int | None]) -> Iterator[None]:
    flat = ctx.needs_input_grad
    ctx.needs_input_grad = tuple(_nested(flat[1:], lengths))
    try:
        yield
    finally:
        ctx.needs_input_grad = flat


def supports_tensorlist(cls: Any) -> Any:
    """Class decorator: `apply` of a Function takes and returns lists of tensors.

    `ctx.needs_input_grad` has a list of bools for a list, and backward returns a list for it.

    >>> import pullback as torch
    >>> from pullback._library.autograd import supports_tensorlist
    >>> @supports_tensorlist
    ... class Doubled(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, xs):
    ...         return [x * 2 for x in xs]
    ...     @staticmethod
    ...     def backward(ctx, gs):
    ...         return [g * 2 for g in gs]
    >>> x = torch.ones(1, requires_grad=True)
    >>> Doubled.apply([x])[0].backward()
    >>> x.grad
    tensor([2.])
    """
    if cls.setup_context is not missing_setup_context:
        raise NotImplementedError(
            f"supports_tensorlist: {cls.__name__} has a setup_context; let forward take ctx."
        )
    own_forward, own_backward = cls.forward, cls.backward

    def forward(ctx: Any, call: _Call, *row: Any) -> Any:
        ctx.nesting = call
        with _nested_needs(ctx, call.inputs):
            result = own_forward(ctx, *_nested(row, call.inputs))
        call.is_tuple = isinstance(result, tuple)
        made, call.outputs = _flat(result if call.is_tuple else (result,))
        return tuple(made)

    def backward(ctx: Any, *grads: Any) -> Any:
        call = ctx.nesting
        with _nested_needs(ctx, call.inputs):
            given = own_backward(ctx, *_nested(grads, call.outputs))
        given = given if isinstance(given, tuple) else (given,)
        row: list[Any] = [None]
        for value, length in zip(given, call.inputs, strict=True):
            if length is None:
                row.append(value)
            else:
                row += [None] * length if value is None else _checked(cls, value, length)
        return tuple(row)

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    flat = type(cls)(cls.__name__, (Function,), members)

    def apply(*args: Any) -> Any:
        call = _Call()
        row, call.inputs = _flat(args)
        results = _nested(flat.apply(call, *row), call.outputs)
        return tuple(results) if call.is_tuple else results[0]

    cls.apply = staticmethod(apply)
    cls.forward = staticmethod(_refused("forward", "call apply"))
    cls.backward = staticmethod(_refused("backward", "autograd calls it"))
    return cls


def _checked(cls: Any, value: Any, length: int) -> list[Any]:
    if not isinstance(value, list | tuple) or len(value) != length:
        raise RuntimeError(
            f"{cls.__name__}.backward must return a list of {length} gradients for the list of "
            f"{length} tensors, got {value!r}."
        )
    return list(value)


def _refused(name: str, instead: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(
            f"{name} of a Function with supports_tensorlist cannot be called directly; {instead}."
        )

    return refuse
