"""Contexts in which handlers are off, and the stacks of modes, as torch's `_C` has them."""

from __future__ import annotations

from typing import Any

from pullback.core.mode import changed, current, get_mode, settle
from pullback.core.overriding import DISPATCH, FUNCTIONS, excluded
from pullback.core.process.whole import Whole
from pullback.operators.dispatch import dispatch

__all__ = [
    "DisableTorchDispatch",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "EnableTorchFunction",
    "ModeOn",
    "Stack",
    "dispatch_mode_at",
    "function_mode_at",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_function_mode_enabled",
    "is_torch_function_all_disabled",
    "is_torch_function_enabled",
    "len_dispatch_stack",
    "len_function_stack",
]


class ModeOn(Whole):
    """A user's mode while it is on: last in its stack, `dispatch` or `functions` of `Mode`.

    `watch` is told before and after; `dispatch` forgets what it knew of the last mode.
    """

    def __init__(self, handler: Any, stack: str, watch: Any) -> None:
        self.handler, self.stack, self.watch = handler, stack, watch
        self.depth = len(getattr(settle(), stack))

    def _enter(self) -> Any:
        self.watch.begin(self)
        mode = settle()
        current.set(changed(mode, **{self.stack: (*getattr(mode, self.stack), self.handler)}))
        return self.handler

    def _leave(self) -> None:
        mode = get_mode()
        known = getattr(mode, self.stack)
        if len(known) > self.depth:
            current.set(changed(mode, **{self.stack: known[: self.depth]}))
        dispatch.forget()
        self.watch.end(self)


class Stack:
    """The user's modes of one sort, `dispatch` or `functions` of `Mode`, as torch's helpers ask."""

    def __init__(self, name: str, handler: str) -> None:
        self.name, self.handler = name, handler

    def modes(self) -> list[Any]:
        """Those that are on, the innermost last."""
        return list(getattr(get_mode(), self.name))

    def innermost(self) -> Any:
        """The one that is asked first; None where there is none."""
        modes = getattr(get_mode(), self.name)
        return modes[-1] if modes else None

    def push(self, mode: Any) -> None:
        """Switch a mode on, without a block."""
        mode.__enter__()

    def pop(self, k: Any = None) -> Any:
        """Switch the innermost off, and give it."""
        mode = getattr(get_mode(), self.name)[-1]
        mode.__exit__(None, None, None)
        return mode

    def unwritten(self, mode: Any) -> NotImplementedError:
        """The error of a mode whose class has no handler."""
        return NotImplementedError(
            f"{type(mode).__name__} has no {self.handler}; define "
            f"{self.handler}(self, func, types, args=(), kwargs=None)."
        )


class _Handlers:
    """A context with other handlers off; `_bits` are those of core/overriding.py."""

    _bits = 0
    _keeps_modes = True
    _off = True

    def __enter__(self) -> None:
        self._before = excluded.get()
        self._functions = settle().functions
        excluded.set(self._before | self._bits if self._off else self._before & ~self._bits)
        if not self._keeps_modes:
            current.set(changed(get_mode(), functions=()))

    def __exit__(self, *raised: object) -> None:
        excluded.set(self._before)
        if not self._keeps_modes:
            current.set(changed(get_mode(), functions=self._functions))


class DisableTorchFunctionSubclass(_Handlers):
    """No class is asked by `__torch_function__` inside; modes are.

    >>> import pullback as torch
    >>> class Length(torch.Tensor):
    ...     pass
    >>> x = torch.ones(2).as_subclass(Length)
    >>> with torch._C.DisableTorchFunctionSubclass():
    ...     type(x + 1) is torch.Tensor
    True
    """

    _bits = FUNCTIONS


class DisableTorchFunction(_Handlers):
    """Neither classes nor modes are asked by `__torch_function__` inside."""

    _bits = FUNCTIONS
    _keeps_modes = False


class EnableTorchFunction(_Handlers):
    """Classes are asked again inside, whatever is around."""

    _bits = FUNCTIONS
    _off = False


class DisableTorchDispatch(_Handlers):
    """No class is asked by `__torch_dispatch__` inside."""

    _bits = DISPATCH


def is_torch_function_enabled() -> bool:
    """Whether classes are asked by `__torch_function__` here."""
    return not excluded.get() & FUNCTIONS


def is_torch_function_all_disabled() -> bool:
    """Whether neither classes nor modes are asked here."""
    return bool(excluded.get() & FUNCTIONS) and not get_mode().functions


def is_function_mode_enabled() -> bool:
    """Whether a function mode is active."""
    return bool(get_mode().functions)


def has_torch_function(args: Any) -> bool:
    """Whether an argument, or a mode, is to be asked."""
    return bool(get_mode().functions) or bool(dispatch.types_of(tuple(args), {}))


def has_torch_function_unary(arg: Any) -> bool:
    """As `has_torch_function`, for one argument."""
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: Any) -> bool:
    """As `has_torch_function`, for arguments as they are."""
    return has_torch_function(args)


# Stacks of modes ---------------------------------------------------------------------------------


def len_dispatch_stack() -> int:
    """How many dispatch modes are active."""
    return len(get_mode().dispatch)


def dispatch_mode_at(index: int) -> Any:
    """The dispatch mode at a place of the stack, 0 for the outermost."""
    return get_mode().dispatch[index]


def len_function_stack() -> int:
    """How many function modes are active."""
    return len(get_mode().functions)


def function_mode_at(index: int) -> Any:
    """The function mode at a place of the stack, 0 for the outermost."""
    return get_mode().functions[index]
