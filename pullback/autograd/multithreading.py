"""Switches of a backward pass: may it use threads, does a new `.grad` take its leaf's strides."""

from __future__ import annotations

from typing import Any, TypeVar

from pullback.autograd.grad_mode import _ModeContext
from pullback.core.mode import changed, current, get_mode, settle

F = TypeVar("F")

__all__ = ["enforce_grad_layout_policy", "is_multithreading_enabled", "set_multithreading_enabled"]


def is_multithreading_enabled() -> bool:
    """Whether backward passes started from this thread may use other threads.

    >>> import pullback as torch
    >>> isinstance(torch.autograd.is_multithreading_enabled(), bool)
    True
    """
    return get_mode().multithreading


class _Switch(_ModeContext):
    """Takes effect when made; as a context it goes back at the end, as a decorator at once."""

    _name: str

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"{type(self).__name__}() needs a bool, got {type(mode).__name__}.")
        self.mode = mode
        self._before = settle()
        current.set(changed(self._before, **{self._name: mode}))

    def _enter(self) -> None:
        current.set(changed(get_mode(), **{self._name: self.mode}))

    def __call__(self, function: Any) -> Any:
        current.set(changed(get_mode(), **{self._name: getattr(self._before, self._name)}))
        return super().__call__(function)

    def _again(self) -> _ModeContext:
        return type(self)(self.mode)

    def _changes(self) -> dict[str, Any]:
        return {self._name: self.mode}


class set_multithreading_enabled(_Switch):
    """Allow or forbid threads in backward passes: at once, or for a block or decorated function.

    >>> import pullback as torch
    >>> with torch.autograd.set_multithreading_enabled(False):
    ...     torch.autograd.is_multithreading_enabled()
    False
    """

    _name = "multithreading"


class enforce_grad_layout_policy(_Switch):
    """Whether a new `.grad` takes the strides of its leaf; otherwise it keeps those it came with.

    >>> import pullback as torch
    >>> with torch.autograd.enforce_grad_layout_policy(False):
    ...     pass
    """

    _name = "enforce_grad_layout"

    def __init__(self, enable: bool = True) -> None:
        super().__init__(enable)
