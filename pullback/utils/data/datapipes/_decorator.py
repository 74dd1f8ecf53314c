"""Pipes whose order may differ from run to run, and where that is refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from pullback.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe, functional_datapipe

__all__ = ["functional_datapipe", "guaranteed_datapipes_determinism", "non_deterministic"]

_guaranteed: ContextVar[bool] = ContextVar("guaranteed_datapipes_determinism", default=False)


class guaranteed_datapipes_determinism:  # noqa: N801  # torch's name
    """Inside, no pipe can be made that is marked `non_deterministic`.

    Example:
        >>> from pullback.utils.data import guaranteed_datapipes_determinism
        >>> from pullback.utils.data.datapipes.iter import IterableWrapper
        >>> with guaranteed_datapipes_determinism():
        ...     pipe = IterableWrapper([1, 2])
        >>> list(pipe)
        [1, 2]
    """

    def __init__(self) -> None:
        self._token: Any = None

    def __enter__(self) -> None:
        self._token = _guaranteed.set(True)

    def __exit__(self, *error: object) -> None:
        _guaranteed.reset(self._token)


def non_deterministic(arg: Any) -> Any:
    """Mark a class of pipes, always or where a function of its arguments says so.

    Example:
        >>> from pullback.utils.data import (
        ...     IterDataPipe, guaranteed_datapipes_determinism, non_deterministic)
        >>> @non_deterministic
        ... class Arrivals(IterDataPipe):
        ...     pass
        >>> with guaranteed_datapipes_determinism():
        ...     Arrivals()
        Traceback (most recent call last):
        ...
        TypeError: Arrivals gives its items in an order that may differ from run to run, ...
    """
    if isinstance(arg, type):
        return _checked(arg, lambda *args, **kwargs: True)
    if not callable(arg):
        raise TypeError(f"non_deterministic is for classes of data pipes, got {arg!r}.")
    return functools.partial(_checked, asked=arg)


def _checked(cls: Any, asked: Callable[..., bool]) -> Any:
    if not issubclass(cls, IterDataPipe | MapDataPipe):
        raise TypeError(f"non_deterministic is for classes of data pipes, got {cls!r}.")

    @functools.wraps(cls)
    def make(*args: Any, **kwargs: Any) -> Any:
        if _guaranteed.get() and asked(*args, **kwargs):
            raise TypeError(
                f"{cls.__name__} gives its items in an order that may differ from run to run, "
                "which guaranteed_datapipes_determinism refuses. Make it outside."
            )
        return cls(*args, **kwargs)

    return make
