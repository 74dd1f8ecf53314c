"""Functions that are no declared operators, shown to the user's modes while one is active.

Functions that make tensors from nothing, and compositions of operators, read no mode of their own.
While a mode is active anywhere, their code is replaced by two lines that ask; whoever holds the
function (a from-import, a method) holds those too, and nothing is paid otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from pullback.core import origin
from pullback.core.mode import get_mode
from pullback.operators.watching import dispatch

__all__ = ["Watched", "makers", "replaceable"]

# Below autograd: what a dispatch mode makes of a call, for those functions that it is shown. Called
# with the function as it was before, and the arguments.
makers: dict[FunctionType, Callable[[FunctionType, tuple[Any, ...], dict[str, Any]], Any]] = {}


def _asking(*args: Any, **kwargs: Any) -> Any:
    # `take` stands for a name of the function's own, see `_Replaced`.
    return take(args, kwargs)  # type: ignore[name-defined]  # noqa: F821 (in the scope it runs in)


class _Replaced:
    """One function, the code it had, the code that asks, and how many modes want that."""

    __slots__ = ("asking", "code", "function", "users")

    def __init__(self, function: FunctionType) -> None:
        self.function, self.code, self.users = function, function.__code__, 0
        plain = FunctionType(
            self.code, function.__globals__, function.__name__, function.__defaults__
        )
        plain.__kwdefaults__ = function.__kwdefaults__
        name = f"__take_{function.__name__}__"
        function.__globals__[name] = lambda args, kwargs: _take(function, plain, args, kwargs)
        self.asking: CodeType = _asking.__code__.replace(
            co_names=(name,),
            co_name=function.__name__,
            co_filename=f"{origin.GENERATED}{function.__name__}, watched>",
        )

    def use(self, change: int) -> None:
        self.users += change
        self.function.__code__ = self.asking if self.users else self.code


def _take(
    function: FunctionType, plain: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    mode = get_mode()
    if mode.functions:
        return dispatch.above(function, args, kwargs)
    if mode.dispatch and not mode.levels and function in makers:
        return makers[function](plain, args, kwargs)
    return plain(*args, **kwargs)


_replaced: dict[FunctionType, _Replaced] = {}
_change = threading.Lock()


class Watched:
    """A set of functions whose calls modes are shown while at least one mode is active."""

    def __init__(self, find: Callable[[], list[FunctionType]]) -> None:
        self._find = find
        self._functions: list[_Replaced] | None = None
        self._active = 0

    def begin(self) -> None:
        """A mode starts, in some thread."""
        with _change:
            self._active += 1
            if self._active == 1:
                self._use(1)

    def end(self) -> None:
        """It ends; the last one takes the code that asks away."""
        with _change:
            self._active -= 1
            if self._active == 0:
                self._use(-1)

    def _use(self, change: int) -> None:
        if self._functions is None:
            self._functions = [_replacing(function) for function in self._find()]
        for one in self._functions:
            one.use(change)


def _replacing(function: FunctionType) -> _Replaced:
    known = _replaced.get(function)
    if known is None:
        known = _replaced[function] = _Replaced(function)
    return known


def replaceable(function: Any) -> bool:
    """Whether a function's code can be replaced: plain Python, no closure, no declared operator."""
    return (
        isinstance(function, FunctionType)
        and not function.__code__.co_freevars
        and not hasattr(function, "op")
        and function.__closure__ is None
    )
