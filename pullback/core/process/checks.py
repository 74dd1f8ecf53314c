"""Conditions that programs state: `torch._check(n > 0, lambda: "n must be positive")`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback.core.tensor import Tensor

Message = Callable[[], Any] | None


def _check_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raise this error, with the message's words, where the condition does not hold."""
    if isinstance(cond, Tensor):
        raise TypeError(
            "A condition must be a bool, got a Tensor; _check_tensor_all asks for all its elements."
        )
    if not isinstance(cond, bool):
        raise TypeError(f"A condition must be a bool, got {type(cond).__name__}.")
    if cond:
        return
    if message is None:
        raise error_type("A condition that the program states does not hold.")
    if not callable(message):
        raise TypeError("The message of a condition must be a function that gives it.")
    raise error_type(str(message()))


def _check(cond: Any, message: Message = None) -> None:
    """RuntimeError where a condition does not hold.

    >>> import pullback as torch
    >>> torch._check(2 > 1)
    """
    _check_with(RuntimeError, cond, message)


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """RuntimeError where the one element of a tensor is zero.

    >>> import pullback as torch
    >>> torch._assert_async(torch.tensor([2.0]).min() > 0, "all must be positive")
    """
    if input.numel() != 1:
        raise RuntimeError(
            f"_assert_async: one element is needed, the tensor has shape {tuple(input.shape)}; use "
            ".all()."
        )
    _check_with(RuntimeError, bool(input), None if assert_msg is None else lambda: assert_msg)


def _check_index(cond: Any, message: Message = None) -> None:
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Message = None, *, max: Any = None) -> None:
    _check_with(RuntimeError, bool(i >= 0 and (max is None or i <= max)), message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    if not isinstance(cond, Tensor) or cond._array.dtype.kind != "b":
        raise TypeError("_check_tensor_all takes a tensor of bools.")
    _check_with(error_type, bool(cond._array.all()), message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    _check_tensor_all_with(RuntimeError, cond, message)
