"""`torch.futures`: values that will be there later, and what is to be done with them then."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

from pullback.core.listing import only_public as _only_public

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value that somebody will set, once, from any thread.

    Example:
        >>> from pullback.futures import Future
        >>> future = Future()
        >>> doubled = future.then(lambda done: done.value() * 2)
        >>> future.set_result(21)
        >>> doubled.wait()
        42
    """

    def __init__(self, *, devices: Sequence[Any] | None = None) -> None:
        for device in devices or ():
            raise ValueError(
                f"Future: devices are accelerators with a number, got {device}; leave it out."
            )
        self._done = threading.Condition()
        self._is_set = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether the result, or an error, has been set."""
        return self._is_set

    def wait(self) -> T:
        """Wait for the result; raise the error that was set instead of one."""
        with self._done:
            while not self._is_set:
                self._done.wait()
        try:
            return self.value()
        finally:
            del self  # for the same reason as in `value`

    def value(self) -> T:
        """The result of a future that is done; its error is raised."""
        if not self._is_set:
            raise RuntimeError("Future.value(): it is not done yet; use wait().")
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # the error knows this frame: with the future in it that were a cycle
        return cast("T", self._result)

    def set_result(self, result: T) -> None:
        """Set the value, and run what waits for it."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Set an error, which `wait` and `value` raise."""
        if not isinstance(result, Exception):
            raise AssertionError(
                f"Future.set_exception: expected an Exception, got {type(result).__name__}."
            )
        self._finish(None, result)

    def _finish(self, result: T | None, error: BaseException | None) -> None:
        with self._done:
            if self._is_set:
                raise RuntimeError("Future: it is done already, and can be set only once.")
            self._result, self._error, self._is_set = result, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._done.notify_all()
        for callback in callbacks:
            callback(self)

    def _when_done(self, callback: Callable[[Future[T]], Any]) -> None:
        with self._done:
            if not self._is_set:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of `callback(self)`, called when this one is done, or at once if it is."""
        later: Future[S] = Future()

        def run(done: Future[T]) -> None:
            try:
                result = callback(done)
            except Exception as error:
                failure = RuntimeError(
                    f"A callback of a Future failed: {type(error).__name__}: {error}"
                )
                failure.__cause__ = error
                later.set_exception(failure)
                return
            later.set_result(result)

        self._when_done(run)
        return later

    def add_done_callback(self, callback: Callable[[Future[T]], Any]) -> None:
        """Call `callback(self)` when this is done; its result is dropped, its errors printed."""

        def run(done: Future[T]) -> None:
            try:
                callback(done)
            except Exception:
                traceback.print_exc(file=sys.stderr)

        self._when_done(run)


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list of these futures, which is done when all of them are.

    An error of one of them, the first that comes, is its own.

    >>> import pullback as torch
    >>> first, second = torch.futures.Future(), torch.futures.Future()
    >>> both = torch.futures.collect_all([first, second])
    >>> first.set_result(1)
    >>> second.set_result(2)
    >>> [one.value() for one in both.wait()]
    [1, 2]
    """
    together: Future[list[Future[Any]]] = Future()
    lock = threading.Lock()
    missing = len(futures)
    if not futures:
        together.set_result([])

    def count(done: Future[Any]) -> None:
        nonlocal missing
        with lock:
            if together.done():
                return
            missing -= 1
            if done._error is not None:
                together._finish(None, done._error)
            elif missing == 0:
                together.set_result(list(futures))

    for future in futures:
        future._when_done(count)
    return together


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """Wait for all, and return their values; the first error is raised.

    Example:
        >>> from pullback.futures import Future, wait_all
        >>> one = Future()
        >>> one.set_result(1)
        >>> wait_all([one, one])
        [1, 1]
    """
    return [future.wait() for future in collect_all(futures).wait()]


__dir__ = _only_public(globals())
