"""NumPy function -> function with NumPy's arguments and torch's operators; and its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import numpy

import pullback as torch
from pullback import Tensor, array_api, dtype
from pullback.array_api._creation import holds_tensors  # type: ignore[import-not-found]
from pullback.core.dtype import from_numpy_dtype

__all__ = ["TABLE", "answers", "as_tensor", "bound", "kept", "kind_of"]

TABLE: dict[Any, Callable[..., Any]] = {}

Function = TypeVar("Function", bound=Callable[..., Any])


def answers(*functions: Any) -> Callable[[Function], Function]:
    """Enter a function for these of NumPy's."""

    def entered(function: Function) -> Function:
        TABLE.update(dict.fromkeys(functions, function))
        return function

    return entered


def bound(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call of what is entered; TypeError for options of NumPy's that it does not have."""
    own = TABLE[function]
    # NumPy's functions hand on what they were not given as this.
    kwargs = {name: value for name, value in kwargs.items() if value is not numpy._NoValue}
    if kwargs.get("out", 0) is None:
        del kwargs["out"]
    try:
        _signature(own).bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(
            f"numpy.{function.__name__} of tensors takes {_signature(own)}: {error}. Options of "
            "NumPy's beyond these are for tensors that need no gradient."
        ) from None
    return own(*args, **kwargs)


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    found = inspect.signature(function)
    plain = [one.replace(annotation=one.empty) for one in found.parameters.values()]
    return inspect.Signature(plain)


def as_tensor(value: Any) -> Tensor:
    """An argument as a tensor: numbers have NumPy's dtypes, tensors in sequences their history."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, list | tuple) and holds_tensors(value):
        return array_api.asarray(value)
    return torch.as_tensor(numpy.asarray(value))


def kind_of(given: Any) -> dtype | None:
    """A dtype of NumPy's, or a name or type that it takes for one, as ours."""
    if given is None or isinstance(given, dtype):
        return given
    return from_numpy_dtype(numpy.dtype(given))


def kept(value: Any) -> bool:
    """An option that is False where NumPy was not given one."""
    return bool(value) and value is not numpy._NoValue
