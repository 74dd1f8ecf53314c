"""`torch.distributed.elastic.multiprocessing.errors`: the mark on a script's main function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pullback.core.listing import only_public as _only_public

__all__ = ["record"]

F = TypeVar("F", bound=Callable[..., Any])


def record(fn: F, error_handler: Any = None) -> F:
    """Mark the function whose errors the launcher tells; here it tells those of every rank.

    >>> from pullback.distributed.elastic.multiprocessing.errors import record
    >>> @record
    ... def main():
    ...     return "trained"
    >>> main()
    'trained'
    """
    if error_handler is not None:
        raise RuntimeError("record: errors are told by the launcher; error_handler is not used.")
    return fn


__dir__ = _only_public(globals())
