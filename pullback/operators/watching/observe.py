"""Lets somebody look at every operator call: a profiler, a search for NaN.

Nothing is paid while nobody looks: an observer's arrival puts a few lines around the code of every
written operator, and its leaving takes them away again. It sees calls as users make them, above
autograd and transforms, in all threads; rules that the plain backward pass runs on bare arrays are
no operator calls.
"""

from __future__ import annotations

import threading
from types import CodeType, FunctionType
from typing import Any, Protocol

from pullback.core import origin
from pullback.operators.declare import Op
from pullback.operators.writing import written
from pullback.operators.writing.call import call_text, signature_of
from pullback.operators.writing.nodes import execute
from pullback.operators.writing.written import WRITTEN, Written

__all__ = ["Observer", "observe", "stop"]


class Observer(Protocol):
    """Who looks on. `enter` comes before the operator and its result is handed to `leave`.

    One that also has a method `wants(op)` sees only the operators for which that is true.
    """

    def enter(self, op: Op, called: str) -> Any:
        """An operator starts; `called` is `add_` for the in-place form of `add`."""

    def leave(self, token: Any, result: Any, operands: tuple[Any, ...]) -> None:
        """It is over; `result` is None if it failed, `operands` are its tensor arguments."""


_observers: list[Observer] = []
_plain: dict[FunctionType, CodeType] = {}  # the code that was there before
_change = threading.Lock()


def observe(observer: Observer) -> None:
    """Show `observer` every operator call from now on.

    >>> import pullback as torch
    >>> class Names:
    ...     def enter(self, op, called):
    ...         print(called)
    ...     def leave(self, token, result, operands):
    ...         print(tuple(result.shape))
    >>> names = Names()
    >>> observe(names)
    >>> y = torch.tensor([1.0, 2.0]).exp()
    exp
    (2,)
    >>> stop(names)
    """
    with _change:
        _observers.append(observer)
        if len(_observers) == 1:
            written.followers.append(_wrap)
        for one in WRITTEN:
            _wrap(one)


def stop(observer: Observer) -> None:
    """Show `observer` nothing any more."""
    with _change:
        _observers.remove(observer)
        if not _observers:
            written.followers.remove(_wrap)
        for one in WRITTEN:
            _wrap(one)


def _wrap(one: Written) -> None:
    function, op, called = one
    scope = function.__globals__
    those = [each for each in _observers if not hasattr(each, "wants") or each.wants(op)]
    if not those:
        function.__code__ = _plain.pop(function, function.__code__)
        return
    observer = those[0] if len(those) == 1 else _Together(tuple(those))
    scope["_enter"], scope["_leave"] = observer.enter, observer.leave
    if function in _plain:
        return
    plain = _plain[function] = function.__code__
    if "observed" not in scope:  # else there was an observer before
        scope["_plain"] = _copy(function, plain)
        source = _source(op, called, inplace=called != op.name)
        execute(source, scope, f"{origin.GENERATED}{called}, observed>")
    function.__code__ = scope["observed"].__code__


def _copy(function: FunctionType, code: CodeType) -> FunctionType:
    copied = FunctionType(code, function.__globals__, function.__name__, function.__defaults__)
    copied.__kwdefaults__ = function.__kwdefaults__
    return copied


def _source(op: Op, called: str, *, inplace: bool) -> str:
    # Users' operators have a call of another form, and say themselves what goes around it.
    if (own := getattr(op, "observed_source", None)) is not None:
        return str(own(called))
    operands = "".join(f"{param.name}, " for param in op.inputs)
    return "\n".join(
        [
            f"def observed({signature_of(op, out=not inplace)}):",
            f"    _token = _enter(op, {called!r})",
            "    try:",
            f"        _result = _plain({call_text(op, out=not inplace)})",
            "    except BaseException:",
            f"        _leave(_token, None, ({operands}))",
            "        raise",
            f"    _leave(_token, _result, ({operands}))",
            "    return _result",
        ]
    )


class _Together:
    """Several observers as one."""

    def __init__(self, observers: tuple[Observer, ...]) -> None:
        self.observers = observers

    def enter(self, op: Op, called: str) -> Any:
        return [observer.enter(op, called) for observer in self.observers]

    def leave(self, token: Any, result: Any, operands: tuple[Any, ...]) -> None:
        for observer, its_token in zip(self.observers, token, strict=True):
            observer.leave(its_token, result, operands)
