"""NumPy's functions on tensors: `numpy.concatenate([x, y])` records and differentiates.

NumPy calls `Tensor.__array_function__` for each of its functions that is given a tensor. Where
nothing is to be recorded, NumPy's own code runs as it does on torch's tensors, and gives what it
gives there. Where a tensor requires grad, or is inside a transform or on a device, the table of
this folder has the operator for it; what is not in the table says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from pullback import Tensor
from pullback.core.mode import fast, get_mode

from . import fourier, joining, linear, reductions, selection, shapes
from ._table import TABLE, bound

__all__ = ["answered", "named"]

_FILLED_BY = (fourier, joining, linear, reductions, selection, shapes)


def answered(function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call of NumPy's, by an operator of ours or by NumPy's own code."""
    if not all(issubclass(one, Tensor | numpy.ndarray) for one in types):
        return NotImplemented  # a class that knows tensors, as a quantity does, is asked next
    if not _wants_operators(args, kwargs):
        return function._implementation(*args, **kwargs)
    if function in TABLE:
        return bound(function, args, kwargs)
    try:
        return function._implementation(*args, **kwargs)  # some ask for methods alone: numpy.ndim
    except (RuntimeError, TypeError) as error:
        raise TypeError(
            f"{_name(function)}: this function of NumPy's is not among those that work on tensors "
            "with gradients, inside transforms and on devices. Use torch's functions, or "
            "`tensor.detach()` where no gradient is wanted."
        ) from error


def named(name: str) -> Any:
    """What answers a function of NumPy's with this name; None where nothing does."""
    return None if name.startswith("_") else TABLE.get(getattr(numpy, name, None))


def _name(function: Any) -> str:
    return f"{function.__module__}.{function.__name__}"


def _wants_operators(args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether NumPy's own code would lose something, or could not run."""
    mode = get_mode()
    if mode is not fast.plain and mode not in fast.others:
        return True  # inside a transform, or something looks on
    return any(
        (mode.grad and one.requires_grad) or type(one._array) is not numpy.ndarray
        for one in _tensors((*args, *kwargs.values()))
    )


def _tensors(values: Any) -> Iterator[Tensor]:
    """The tensors in arguments, and in sequences among them."""
    waiting = [values]
    while waiting:
        for one in waiting.pop():
            if isinstance(one, Tensor):
                yield one
            elif isinstance(one, list | tuple):
                waiting.append(one)
