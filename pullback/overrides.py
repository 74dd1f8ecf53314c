"""`TorchFunctionMode`: sees calls of the public functions, above autograd; and its helpers.

Torch's place for it. The mechanism is in operators/watching/dispatch.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any, TypeVar

import pullback
from pullback.core.mode import changed, current, get_mode, settle
from pullback.core.tensor import Tensor
from pullback.operators.watching import dispatch
from pullback.operators.watching.asking import WATCH

__all__ = [
    *("TorchFunctionMode", "handle_torch_function", "has_torch_function", "is_tensor_like"),
    *("is_tensor_method_or_property", "resolve_name"),
]

M = TypeVar("M", bound="TorchFunctionMode")


class TorchFunctionMode:
    """A context in which each call of a public function goes to `__torch_function__`.

    The handler is called as `handler(func, types, args, kwargs)`, with the function and its
    arguments as the user gave them, before anything of autograd happens; what it returns is the
    result of the call. Inside it this mode is off and those around it are on.

    Example:
        >>> import pullback as torch
        >>> from pullback.overrides import TorchFunctionMode
        >>> class Names(TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         print(func.__name__)
        ...         return func(*args, **(kwargs or {}))
        >>> x = torch.tensor([1.0, 2.0])
        >>> with Names():
        ...     y = torch.nn.functional.softsign(x).sum()
        softsign
        sum
    """

    def __torch_function__(
        self,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What the function gives; to be written by the subclass."""
        raise NotImplementedError(
            f"{type(self).__name__} has no __torch_function__; define "
            "__torch_function__(self, func, types, args=(), kwargs=None)."
        )

    def __enter__(self: M) -> M:
        mode = settle()
        current.set(changed(mode, functions=(*mode.functions, self)))
        WATCH.begin()
        return self

    def __exit__(self, *error: object) -> None:
        mode = get_mode()
        current.set(changed(mode, functions=mode.functions[:-1]))
        WATCH.end()


# Helpers for functions of one's own --------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether an argument has a `__torch_function__` of its own, or a function mode is active.

    Example:
        >>> import pullback as torch
        >>> torch.overrides.has_torch_function((torch.ones(2), 3))
        False
    """
    return bool(get_mode().functions) or bool(dispatch.types_of(tuple(relevant_args), {}))


def handle_torch_function(
    public_api: Any, relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Hand a call of `public_api` to the active function mode, or to the arguments that want it."""
    if get_mode().functions:
        return dispatch.above(public_api, args, kwargs)
    taken, answer = dispatch.overloaded(public_api, args, kwargs, tuple(relevant_args))
    if taken:
        return answer
    kinds = [kind.__name__ for kind in dispatch.types_of(tuple(relevant_args), {})]
    raise TypeError(
        f"{resolve_name(public_api)}: every __torch_function__ of {kinds} returned NotImplemented; "
        "none of them takes this function."
    )


def is_tensor_like(inp: Any) -> bool:
    """Whether a value is a tensor, or wants to be treated as one by `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether a function is found as a method of Tensor."""
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func


def resolve_name(f: Any) -> str:
    """A readable name of a function: "torch.add", or how an operator prints."""
    name = getattr(f, "__name__", None)
    if name is None or not isinstance(f, FunctionType):
        return str(f)
    return f"torch.{name}" if getattr(pullback, name, None) is f else f"torch.Tensor.{name}"
