"""`enable_python_dispatcher`: operators here are Python already."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["enable_python_dispatcher", "no_python_dispatcher"]


@contextmanager
def enable_python_dispatcher() -> Iterator[None]:
    """Inside, operators are dispatched by Python, as they are outside.

    >>> import pullback as torch
    >>> with torch._dispatch.python.enable_python_dispatcher():
    ...     torch.ones(1) + 1
    tensor([2.])
    """
    yield


@contextmanager
def no_python_dispatcher() -> Iterator[None]:
    """The inner of two contexts wins in torch; here both change nothing."""
    yield
