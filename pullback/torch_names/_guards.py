"""`torch._guards`: which mode without data is on, as libraries ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.core.mode import get_mode
from pullback.core.trees import pytree

from ._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["TracingContext", "detect_fake_mode", "tracing"]


class TracingContext:
    """What a trace knows, its mode without data; the current one inside `tracing(context)`."""

    def __init__(self, fake_mode: Any) -> None:
        self.fake_mode = fake_mode

    @staticmethod
    def try_get() -> TracingContext | None:
        """The current one, or None."""
        return _current.get()

    @staticmethod
    def get() -> TracingContext:
        """The current one; an error where there is none."""
        found = _current.get()
        if found is None:
            raise RuntimeError("TracingContext.get() is for use inside `tracing(context)`.")
        return found


_current: ContextVar[TracingContext | None] = ContextVar("pullback_tracing", default=None)


@contextmanager
def tracing(context: TracingContext | None) -> Iterator[TracingContext | None]:
    """Inside, `context` is the current one.

    >>> from pullback._guards import TracingContext, tracing
    >>> with tracing(TracingContext(None)) as context:
    ...     TracingContext.get() is context
    True
    """
    before = _current.get()
    try:
        _current.set(context)
        yield context
    finally:
        _current.set(before)


def detect_fake_mode(inputs: Any = None) -> FakeTensorMode | None:
    """The mode without data that is on, or that fake tensors among `inputs` are of; or None.

    >>> import pullback as torch
    >>> from pullback._guards import detect_fake_mode
    >>> from pullback._subclasses.fake_tensor import FakeTensorMode
    >>> detect_fake_mode(torch.ones(2)) is None
    True
    >>> with FakeTensorMode() as mode:
    ...     x = torch.ones(2)
    >>> detect_fake_mode([x]) is mode
    True
    """
    context = TracingContext.try_get()
    found = [] if context is None or context.fake_mode is None else [context.fake_mode]
    found += [mode for mode in reversed(get_mode().dispatch) if isinstance(mode, FakeTensorMode)]
    leaves = pytree.tree_leaves(inputs)
    found += [one.fake_mode for one in leaves if isinstance(one, FakeTensor)]
    if any(mode is not found[0] for mode in found):
        raise AssertionError("detect_fake_mode: tensors or contexts of two modes without data met.")
    return found[0] if found else None


__dir__ = _only_public(globals())
