"""`TorchDispatchMode`: sees every operator call, below autograd.

The mechanism is in operators/dispatch/dispatch.py, the names that a handler is given
in library/builtin/overloads.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from pullback.core.mode import changed, current, get_mode, settle
from pullback.core.process.whole import Reentrant, Whole
from pullback.library.builtin.makers import MAKERS
from pullback.operators.dispatch.switching import ModeOn, Stack
from pullback.operators.dispatch.switching import (
    dispatch_mode_at as _get_dispatch_stack_at,  # noqa: F401 (torch's name)
)
from pullback.operators.dispatch.switching import len_dispatch_stack as _len_torch_dispatch_stack
from pullback.utils._wrapping import (
    is_traceable_wrapper_subclass,
    is_traceable_wrapper_subclass_type,
    return_and_correct_aliasing,
    transform_subclass,
)

__all__ = [
    "BaseTorchDispatchMode",
    "TorchDispatchMode",
    "any_torch_dispatch_mode_on_stack",
    "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass",
    "is_traceable_wrapper_subclass_type",
    "return_and_correct_aliasing",
    "transform_subclass",
]

M = TypeVar("M", bound="TorchDispatchMode")
_STACK = Stack("dispatch", "__torch_dispatch__")


class TorchDispatchMode(Reentrant):
    """A context in which each operator call goes to `__torch_dispatch__`.

    The handler is called as `handler(func, types, args, kwargs)`: `func` is the operator
    (`ops.aten.add.Tensor`), called as `func(*args, **kwargs)` it runs on that level and below. It
    returns what the operator should. Inside it this mode is off and those around it are on; what it
    computes is not recorded, the caller's history is. Backward passes call operators too, and the
    mode sees those that run inside of it.

    Example:
        >>> import pullback as torch
        >>> from pullback.utils._python_dispatch import TorchDispatchMode
        >>> class Log(TorchDispatchMode):
        ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        ...         print(func)
        ...         return func(*args, **(kwargs or {}))
        >>> with Log():
        ...     y = torch.tensor([1.0, 2.0]) * 3 + 1
        aten.lift_fresh.default
        aten.mul.Tensor
        aten.add.Tensor
    """

    def __torch_dispatch__(
        self,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What the operator gives; to be written by the subclass."""
        raise _STACK.unwritten(self)

    def _entry(self) -> Whole:
        return ModeOn(self, "dispatch", MAKERS)

    @classmethod
    def push(cls: Callable[..., M], *args: Any, **kwargs: Any) -> M:
        """An instance, as older programs make it."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether it belongs to a compiler; none here does."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that passes every call on; to be subclassed."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What the operator gives."""
        return func(*args, **(kwargs or {}))


def any_torch_dispatch_mode_on_stack() -> bool:
    """Whether any dispatch mode is active in this thread."""
    return _len_torch_dispatch_stack() > 0


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether any dispatch mode is active in this thread."""
    return bool(get_mode().dispatch)


# Torch's names for what its libraries ask.
_get_current_dispatch_mode = _STACK.innermost
_get_current_dispatch_mode_stack = _STACK.modes
_push_mode, _pop_mode = _STACK.push, _STACK.pop


@contextmanager
def _pop_mode_temporarily(k: Any = None) -> Iterator[Any]:
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


def _disable_current_modes() -> Any:
    return _without_modes()


class _without_modes(Whole):  # noqa: N801 (a context)
    """No dispatch mode is active inside."""

    def __init__(self) -> None:
        self._before = settle().dispatch

    def _enter(self) -> tuple[Any, ...]:
        current.set(changed(settle(), dispatch=()))
        return self._before

    def _leave(self) -> None:
        current.set(changed(get_mode(), dispatch=self._before))
