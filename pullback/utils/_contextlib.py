"""Contexts that are decorators too, under the names that libraries subclass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pullback.autograd.grad_mode import decorated

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager", "context_decorator"]

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound="_DecoratorContextManager")


def context_decorator(ctx: Any, func: F) -> F:
    """`func` run inside a context: `ctx` is one, or a function that gives one for each call.

    Generators enter it whenever their body runs, and leave it between.
    """
    if callable(ctx) and hasattr(ctx, "__enter__") and not isinstance(ctx, type):
        raise TypeError(
            f"context_decorator: {ctx!r} is a context and a function; pass one that is only one."
        )
    return decorated(ctx if callable(ctx) else lambda: ctx, func)


class _DecoratorContextManager:
    """Lets a context class be a decorator; a new one, from `clone()`, is entered for each call."""

    def __call__(self, orig_func: F) -> F:
        return decorated(self.clone, orig_func)

    def __enter__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no __enter__; define it.")

    def __exit__(self, *error: object) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no __exit__; define it.")

    def clone(self: C) -> C:
        """A context like this one; override it in classes whose constructor has arguments."""
        return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The same for classes without arguments, which may decorate without parentheses."""

    def __new__(cls, orig_func: Any = None) -> Any:
        """Decorate what is given, or be a context."""
        made = super().__new__(cls)
        return made if orig_func is None else made(orig_func)
