"""`fork` and `wait`: calls whose results are asked for later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Future", "fork", "wait"]

T = TypeVar("T")


class Future(Generic[T]):
    """A result to be asked for; here it is there already."""

    def __init__(self, made: T) -> None:
        self._made = made

    def wait(self) -> T:
        """The result."""
        return self._made

    value = wait

    def done(self) -> bool:
        """Whether the result is there: it is."""
        return True

    def then(self, callback: Callable[[Future[T]], Any]) -> Future[Any]:
        """What a function makes of this."""
        return Future(callback(self))


def fork(func: Callable[..., T], *args: Any, **kwargs: Any) -> Future[T]:
    """Call a function, to `wait` for its result; as torch does outside of scripts, right away.

    >>> import pullback as torch
    >>> future = torch.jit.fork(torch.add, torch.ones(2), 1)
    >>> torch.jit.wait(future)
    tensor([2., 2.])
    """
    return Future(func(*args, **kwargs))


def wait(future: Any) -> Any:
    """The result of a `fork`."""
    return future.wait()
