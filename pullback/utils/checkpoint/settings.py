"""Settings of a region of the program that override the arguments of checkpoint()."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

__all__ = ["noop_context_fn", "set_checkpoint_debug_enabled", "set_checkpoint_early_stop"]

ContextFn = Callable[[], tuple[AbstractContextManager[object], AbstractContextManager[object]]]

early_stop: ContextVar[bool | None] = ContextVar("pullback_checkpoint_early_stop", default=None)
debug: ContextVar[bool | None] = ContextVar("pullback_checkpoint_debug", default=None)


def noop_context_fn() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Two contexts that do nothing: the default of `context_fn`.

    >>> from pullback.utils.checkpoint import noop_context_fn
    >>> forward, recompute = noop_context_fn()
    """
    return nullcontext(), nullcontext()


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether checkpoints whose forward runs inside end a re-run as soon as it has all they need.

    Overrides the argument `early_stop`; the backward may run outside.

    >>> import pullback as torch
    >>> from pullback.utils.checkpoint import checkpoint, set_checkpoint_early_stop
    >>> x = torch.ones(1, requires_grad=True)
    >>> with set_checkpoint_early_stop(False):
    ...     y = checkpoint(lambda t: t.sin().cos(), x, use_reentrant=False)
    >>> y.backward()
    """
    before = early_stop.get()
    try:
        early_stop.set(enable)
        yield
    finally:
        early_stop.set(before)


@contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Whether checkpoints inside record their operators; None leaves it to the argument `debug`.

    >>> from pullback.utils.checkpoint import set_checkpoint_debug_enabled
    >>> with set_checkpoint_debug_enabled(True):
    ...     pass
    """
    before = debug.get()
    try:
        debug.set(enabled)
        yield
    finally:
        debug.set(before)
