"""Lets somebody look at every operator call: a profiler, a search for NaN.

One switch for the whole process: `observers.active`. The first line of every written operator asks
it (half a percent of a small product); while somebody looks, the call goes through `observed`,
which runs the same lines without the question. Observers see calls as users make them,
above autograd and transforms, in all threads; rules that the plain backward pass runs on bare
arrays are no operator calls (`engine/node_observers.py` shows nodes).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any, Protocol, runtime_checkable

from pullback.operators.declare import Op
from pullback.operators.options import UNFILLED

__all__ = [
    *("Observer", "Unwatched", "observe", "observers"),
    *("compiling", "observed", "observed_composition", "observed_function", "shown_draw", "stop"),
]


class Observer(Protocol):
    """Who looks on. `enter` comes before the operator and its result is handed to `leave`.

    One that also has `enter_function(cls)` and `leave_function(token, result, args)` sees custom
    Functions too. One that has `noted_call(called, run, args, kwargs, result)` is told afterwards
    how a call can be made again, and by `noted_draw(op, draw, result, state)` of random tensors.
    """

    def enter(self, op: Op, called: str) -> Any:
        """An operator starts; `called` is `add_` for the in-place form of `add`."""

    def leave(self, token: Any, result: Any, operands: tuple[Any, ...]) -> None:
        """It is over; `result` is None if it failed, `operands` are its tensor arguments."""


@runtime_checkable
class Timekeeper(Protocol):
    """An observer that also wants to know how long other things took."""

    def step(self, name: str, start: int, end: int) -> None:
        """Something that is no operator took so long, in ns of `perf_counter_ns`."""


class _Observers:
    """The switch: who looks on, None for nobody.

    And what stands in a place of a call that nobody filled, while nobody looks on; else something
    that stands nowhere. So one comparison asks for both.
    """

    __slots__ = ("active", "unfilled")

    def __init__(self) -> None:
        self.active: Observer | None = None
        self.unfilled: object = UNFILLED


_NOWHERE = object()
observers = _Observers()
_observers: list[Observer] = []
_recorders: list[Any] = []  # those that have `noted_call`
_change = threading.RLock()


def observe(observer: Observer) -> None:
    """Show `observer` every operator call from now on.

    >>> import pullback as torch
    >>> class Names:
    ...     def enter(self, op, called):
    ...         print(called)
    ...     def leave(self, token, result, operands):
    ...         pass
    >>> names = Names()
    >>> observe(names)
    >>> x = torch.ones(2) * 3
    mul
    >>> stop(names)
    """
    with _change:
        _observers.append(observer)
        _switch()


def stop(observer: Observer) -> None:
    """Show `observer` nothing any more."""
    with _change:
        if observer in _observers:
            _observers.remove(observer)
        _switch()


def _switch() -> None:
    _recorders[:] = [one for one in _observers if hasattr(one, "noted_call")]
    several = len(_observers) > 1
    observers.active = _Together(tuple(_observers)) if several else next(iter(_observers), None)
    observers.unfilled = UNFILLED if observers.active is None else _NOWHERE


class _Together:
    """Several observers as one."""

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        self.observers = observers

    def enter(self, op: Op, called: str) -> Any:
        return [observer.enter(op, called) for observer in self.observers]

    def leave(self, token: Any, result: Any, operands: tuple[Any, ...]) -> None:
        for observer, its_token in zip(self.observers, token, strict=True):
            observer.leave(its_token, result, operands)


def observed_function(
    cls: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run `run(cls, args, kwargs)`, which applies a custom Function, with somebody looking on."""
    observers: list[Any] = [one for one in tuple(_observers) if hasattr(one, "enter_function")]
    tokens = [one.enter_function(cls) for one in observers]
    result = None
    try:
        result = run(cls, args, kwargs)
    finally:
        for one, token in zip(observers, tokens, strict=True):
            one.leave_function(token, result, args)
    return result


def observed_composition(
    name: str, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a function of operators with somebody looking on at such: a profiler."""
    observers: list[Any] = [one for one in tuple(_observers) if hasattr(one, "enter_composition")]
    tokens = [one.enter_composition(name) for one in observers]
    result = None
    try:
        result = run(args, kwargs)
    finally:
        for one, token in zip(observers, tokens, strict=True):
            one.leave_composition(token, result, args)
    return result


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Inside, code is made: profilers show that as `compile::name`, apart from what runs it."""
    start = perf_counter_ns()
    try:
        yield
    finally:
        end = perf_counter_ns()
        for one in tuple(_observers):
            if isinstance(one, Timekeeper):
                one.step(f"compile::{name.lstrip('_')}", start, end)


class Unwatched:
    """A written function without the question who looks on; `write` makes it when first needed."""

    __slots__ = ("_write", "function")

    def __init__(self, write: Callable[[], Any]) -> None:
        self._write = write
        self.function: Any = None

    def written(self) -> Any:
        """The function."""
        if self.function is None:
            self.function = self._write()  # two threads may both write it: the same lines
        return self.function


def observed(
    op: Op,
    called: str,
    unwatched: Unwatched,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    operands: tuple[Any, ...],
) -> Any:
    """Run an operator with somebody looking on."""
    run = unwatched.function or unwatched.written()
    observer = observers.active
    if observer is None:  # gone in the meantime
        return run(*args, **kwargs)
    token = observer.enter(op, called)
    try:
        result = run(*args, **kwargs)
    except BaseException:
        observer.leave(token, None, operands)
        raise
    # A sign that gives way to the other operand computed nothing.
    observer.leave(token, None if result is NotImplemented else result, operands)
    if _recorders and result is not NotImplemented:
        for one in tuple(dict.fromkeys(_recorders)):
            one.noted_call(called, run, args, kwargs, result)
    return result


def shown_draw(op: str, draw: Callable[[], Any], get_state: Callable[[], Any]) -> Any:
    """Draw a random tensor with somebody looking on."""
    if not _recorders:
        return draw()
    state = get_state()
    result = draw()
    for one in tuple(dict.fromkeys(_recorders)):
        one.noted_draw(op, draw, result, state)
    return result
