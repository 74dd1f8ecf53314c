"""Public functions, made to ask before they run: modes, and arguments that override calls.

A function that asks keeps its object; its code is replaced, so whoever holds the function (a
from-import, a method) asks too. Compositions of operators get a guard, once, when they are loaded
(`dispatch/guards.py`, 0.06 us; those declared `quick` do not). Everything else asks only
while somebody is there who could answer: a function or dispatch mode, a class with a
`__torch_function__` that was met, a proxy of a tracer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from inspect import CO_VARARGS
from types import CodeType, FunctionType
from typing import Any

from pullback.core import origin
from pullback.core.mode import Mode, changed, current, get_mode
from pullback.core.overriding import DISPATCH
from pullback.core.ports import ports
from pullback.core.writer import with_constants
from pullback.operators.declare import REQUIRED
from pullback.operators.dispatch import dispatch
from pullback.operators.dispatch.given import as_given, check_options, defaults_of
from pullback.operators.dispatch.guards import (
    asking_code,
    guard_defaults,
    guard_of,
    required_by_name,
)
from pullback.operators.dispatch.layers import LAYERS, Layer
from pullback.operators.guarding import REFUSALS, explained, named
from pullback.operators.options import both_names, other_names

__all__ = ["Watched", "always", "castings", "loaded", "makers", "replaceable"]

# Below autograd: what a dispatch mode makes of a call, for those functions that it is shown. Called
# with the function as it was before, and the arguments.
makers: dict[FunctionType, Callable[[FunctionType, tuple[Any, ...], dict[str, Any]], Any]] = {}


# Above autograd too: how autocast runs a composition. Called as makers are, with the mode.
castings: dict[FunctionType, Callable[..., Any]] = {}


class _Asking(Layer):
    """One function, what it does after asking, and how many want it to ask."""

    __slots__ = ("asking", "function", "guarding", "users")

    def __init__(self, function: FunctionType) -> None:
        plain = FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        plain.__kwdefaults__ = function.__kwdefaults__
        plain.__module__, plain.__qualname__ = function.__module__, function.__qualname__
        plain.__doc__ = function.__doc__
        plain.__dict__.update(function.__dict__)  # what it wraps itself
        super().__init__(plain)
        self.function = function
        self.guarding: CodeType | None = None
        # Replaced and never changed: calls in other threads are walking over it.
        self.users: frozenset[Any] = frozenset()
        self.asking: CodeType | None = None  # made when first wanted, as few ever are

    def _handing_to(self, take: Callable[..., Any]) -> CodeType:
        """Code for the function that hands over whatever it is called with."""
        code = asking_code(self.function.__code__.co_freevars)
        return with_constants(code, take=take).replace(
            co_name=self.function.__name__,
            co_filename=f"{origin.GENERATED}{self.function.__name__}, asking>",
        )

    def guard(self) -> None:
        """Let the function look at its arguments for ever."""
        if self.guarding is None:
            self.guarding = self._handing_to(self._take_first)
            if not self.users:
                self._stand_before(self.guarding)

    def _take_first(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The first call of a function that looks: now its guard is written; few are ever used."""
        with _change:
            renamed = self._other_names()
            written = self.guarding = guard_of(self.plain, self, renamed)
            # The code that is there takes whatever comes, so the order of these is safe.
            self.function.__defaults__ = guard_defaults(self.plain, renamed)
            if not self.users:
                self.function.__code__ = written
        return self.function(*args, **kwargs)

    def _other_names(self) -> dict[str, str]:
        """NumPy's names of operands, unless the function is Python in torch, and has no parser."""
        code = self.plain.__code__
        if code.co_flags & CO_VARARGS or ports.is_python(self.function):
            return {}
        return other_names(code.co_varnames[: code.co_argcount])

    def take_renamed(self, values: tuple[Any, ...], renamed: dict[str, Any]) -> Any:
        """A call that names operands as NumPy does, or lacks an argument."""
        args, kwargs = as_given(self.plain, values)
        own = self.plain.__code__.co_varnames
        usual = defaults_of(self.plain)
        given = {
            name: one
            for name, one in zip(own, args, strict=False)
            if one is not REQUIRED and (name not in usual or one is not usual[name])
        }
        given |= kwargs
        return self._run_renamed(given, {n: v for n, v in renamed.items() if v is not None})

    def _run_renamed(self, given: dict[str, Any], renamed: dict[str, Any]) -> Any:
        known = self._other_names()
        for theirs, value in renamed.items():
            if known[theirs] in given:
                raise both_names(self.function.__name__, known[theirs], theirs)
            given[known[theirs]] = value
        if renamed:
            return self.function(**given)
        return self.plain(**given)  # which lacks one: Python says which

    def use(self, user: Any, *, wanted: bool) -> None:
        """Ask, or stop asking, on behalf of somebody."""
        self.users = self.users | {user} if wanted else self.users - {user}
        function = self.function
        if self.users:  # then keywords are handed over as keywords
            if self.asking is None:
                self.asking = self._handing_to(self.take_asked)
            if function.__code__ is not self.asking:
                self._stand_before(self.asking)
            return
        if self.guarding is not None:
            function.__code__ = self.guarding
            return
        # Each step sets something to what it was: an interrupt between them is mended by the next.
        if function.__code__ is self.asking:
            function.__code__ = self.plain.__code__
        LAYERS.pop(function, None)
        if "__wrapped__" in self.plain.__dict__:
            function.__wrapped__ = self.plain.__wrapped__  # type: ignore[attr-defined]  # inspect's
        else:
            function.__dict__.pop("__wrapped__", None)

    def _stand_before(self, code: CodeType) -> None:
        function, plain = self.function, self.plain
        if function not in LAYERS:  # else `plain` has its code already
            plain.__code__ = function.__code__
            plain.__defaults__ = function.__defaults__
            plain.__kwdefaults__ = function.__kwdefaults__
            plain.__annotations__ = function.__annotations__
            LAYERS[function] = self
        function.__code__ = code
        function.__wrapped__ = plain  # type: ignore[attr-defined]  # inspect follows it

    def take_guarded(self, values: tuple[Any, ...], more: Any = (), named: Any = ()) -> Any:
        """A call that a guard noticed: its arguments, less those that stand at their defaults."""
        args, kwargs = as_given(self.plain, values)
        return self.take_asked((*args, *more), {**kwargs, **dict(named)})

    def take_asked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The call, shown to whoever looks on at compositions."""
        for user in self.users:
            if type(user) is Watched and user.around is not None:
                return user.around(self.function, self._take, args, kwargs)
        return self._take(args, kwargs)

    def _take(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """To a mode, to an argument that overrides calls, to a maker, or as it always was."""
        if kwargs and (self.guarding is not None or "always" in self.users):
            known = self._other_names().keys() & kwargs.keys()
            if known:
                renamed = {name: kwargs.pop(name) for name in known}
                own = self.plain.__code__.co_varnames
                given = dict(zip(own, args, strict=False)) | kwargs
                return self._run_renamed(given, renamed)
        mode = get_mode()
        if mode.functions:
            return dispatch.above(*ports.spelled(self.function, args, kwargs))
        for one in args:
            if type(one) not in dispatch.QUIET and dispatch.any_handler(one):
                return self._ask(args, kwargs)
        for one in kwargs.values():
            if type(one) not in dispatch.QUIET and dispatch.any_handler(one):
                return self._ask(args, kwargs)
        if mode.autocast is not None and self.function in castings:
            return castings[self.function](self.plain, args, kwargs, mode)
        makes = self.function in makers and (not mode.levels or _shows_makers(mode))
        if makes and (mode.dispatch or dispatch.overrides_of(args, kwargs) & DISPATCH):
            if not mode.levels:
                return makers[self.function](self.plain, args, kwargs)
            try:
                current.set(changed(mode, levels=()))
                return makers[self.function](self.plain, args, kwargs)
            finally:
                current.set(mode)
        return self._run(args, kwargs)

    def _ask(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            taken, answer = dispatch.overloaded(*ports.spelled(self.function, args, kwargs))
            if not taken:
                dispatch.refuse(self.function, args, kwargs)
        except dispatch.Unanswered:
            if self.function in dispatch.DUNDERS:
                return NotImplemented
            raise
        return answer if taken else self._run(args, kwargs)

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function's own code, with what its guard says of arguments that are no tensors."""
        if self.guarding is not None or required_by_name(self.plain):
            check_options(self.plain, args, kwargs)
        try:
            return self.plain(*args, **kwargs)
        except REFUSALS as error:
            told = None
            if self.guarding is not None:
                told = explained(self.plain, error, named(self.plain, args, kwargs))
            if told is None:
                raise
            raise told from None


def _shows_makers(mode: Mode) -> bool:
    """Whether modes are shown what makes tensors inside transforms.

    All of these are functionalize, to which a new tensor is as any other, and no mode says that it
    has ways of its own to tell who made a tensor.
    """
    functional = all(getattr(one, "transform", "") == "functionalize" for one in mode.levels)
    return functional and not any(getattr(one, "finds_makers", False) for one in mode.dispatch)


_known: dict[FunctionType, _Asking] = {}
_change = threading.RLock()


def _layer(function: FunctionType) -> _Asking:
    known = _known.get(function)
    if known is None:
        known = _known[function] = _Asking(function)
    return known


def always(functions: Iterable[FunctionType]) -> None:
    """Let these ask from now on, whatever happens."""
    with _change:
        for function in functions:
            if required_by_name(function):  # Python would refuse the call before anybody is asked
                _layer(function).use("always", wanted=True)
            else:
                _layer(function).guard()


class Watched:
    """A set of functions that ask while at least one wants them to.

    With `around`, their calls go through that: it gets the function, what runs it, its arguments.
    """

    def __init__(
        self, find: Callable[[], list[FunctionType]], around: Callable[..., Any] | None = None
    ) -> None:
        self._find = find
        self.around = around
        self._functions: dict[FunctionType, _Asking] = {}
        self._active: set[Any] = set()
        self._asking = False
        _watched.append(self)

    def begin(self, entry: Any) -> None:
        """Somebody who could answer arrives, in some thread."""
        with _change:
            if not self._asking:  # before it counts: finding may load families, see `follow`
                self._functions = {one: _layer(one) for one in self._find()}
            self._active.add(entry)
            if not self._asking:
                self._use(wanted=True)
                self._asking = True  # an interrupt before this: the next one does it again

    def end(self, entry: Any) -> None:
        """And leaves, as far as it arrived; the last one takes the code that asks away."""
        with _change:
            self._active.discard(entry)
            if not self._active:
                self._asking = False
                self._use(wanted=False)

    def follow(self) -> None:
        """Functions have been loaded since."""
        with _change:
            if self._active:
                self._functions = {one: _layer(one) for one in self._find()}
                self._use(wanted=True)

    def _use(self, *, wanted: bool) -> None:
        for layer in self._functions.values():
            layer.use(self, wanted=wanted)


_watched: list[Watched] = []


def loaded() -> None:
    """More functions are there now: those who watch want to see them too."""
    for one in _watched:
        one.follow()


def replaceable(function: Any) -> bool:
    """Whether it is a plain Python function and no declared operator."""
    return isinstance(function, FunctionType) and not hasattr(function, "op")
