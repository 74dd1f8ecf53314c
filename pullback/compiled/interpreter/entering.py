"""Python functions: arguments bound to names, and the body interpreted."""

from __future__ import annotations

import builtins
import inspect
import types
from typing import Any

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter import library, polyfills
from pullback.compiled.interpreter.frames import Frame, Walk
from pullback.compiled.interpreter.objects import Objects

__all__ = ["Entering"]


_MOST_FRAMES = 200
_BUILTINS = vars(builtins)


class Entering(Objects):
    """Enters functions."""

    run: Any  # of instructions.py
    walks: list[Walk]  # all generators that were made
    tail = False  # whether the call under way gives what an instruction gives

    def begin(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Call the function that is captured, whose code is entered wherever it is."""
        self.constant(function)
        if type(function) is types.FunctionType and library.where(function) == "other":
            return self.enter(function, args, kwargs)
        return self.call(function, args, kwargs)

    def enter(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Interpret a Python function."""
        tail, self.tail = self.tail, False
        code = function.__code__
        if function.__builtins__ is not _BUILTINS:
            raise CannotCapture("a function whose names of Python's own are others")
        trusted = function.__globals__ is vars(polyfills)
        source = self.source(function)
        if source is None and id(function) not in self.made and not trusted:
            source = self.source(self.constant(function))
        if source is not None:
            self.guards.add("is", source.attr("__code__"), code)
        variables = self._bind(function, code, source, args, kwargs)
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        frame = Frame(function, code, variables, cells, function.__globals__)
        frame.is_tail = tail
        if len(self.frames) > _MOST_FRAMES:
            raise CannotCapture(f"calls nested more than {_MOST_FRAMES} deep")
        if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            raise CannotCapture("a coroutine")
        if code.co_flags & inspect.CO_GENERATOR:
            frame.is_tail = False  # what it yields is nothing that a call gives
            self.walks.append(Walk(self, frame))
            return self.new(self.walks[-1])
        return self.run(frame)[1]

    def check_left(self) -> None:
        """Refuse generators that nobody finished: Python leaves them when it lets go of them."""
        for walk in self.walks:
            if walk.frame is not None and walk.waits_inside_a_block():
                text = "a generator is left inside a try or with block"
                raise CannotCapture(text, walk.frame.origin)

    def _bind(self, function: Any, code: Any, source: Any, args: Any, kwargs: Any) -> Any:
        """The variables of a call: arguments under their names, defaults where none is given."""
        count, only = code.co_argcount, code.co_kwonlyargcount
        names = code.co_varnames[: count + only]
        variables = dict(zip(names[:count], args, strict=False))
        place = count + only
        if code.co_flags & inspect.CO_VARARGS:
            variables[code.co_varnames[place]] = self.new(tuple(args[count:]))
            place += 1
        elif len(args) > count:
            raise TypeError(
                f"{function.__name__}() takes {count} positional arguments, {len(args)} were given"
            )
        rest = {}
        for name, value in kwargs.items():
            if name not in names[code.co_posonlyargcount :]:
                rest[name] = value
            elif name in variables:
                raise TypeError(f"{function.__name__}() got multiple values for argument {name!r}")
            else:
                variables[name] = value
        if code.co_flags & inspect.CO_VARKEYWORDS:
            variables[code.co_varnames[place]] = self.new(rest)
        elif rest:
            raise TypeError(f"{function.__name__}() got unexpected keyword arguments {list(rest)}")
        self._bind_defaults(function, source, variables, names, count)
        return variables

    def _bind_defaults(
        self, function: Any, source: Any, variables: Any, names: Any, count: int
    ) -> None:
        defaults, words = function.__defaults__ or (), function.__kwdefaults__ or {}
        first = count - len(defaults)
        for n, name in enumerate(names):
            if name in variables:
                continue
            if first <= n < count:
                value = defaults[n - first]
                if source is not None:
                    at = source.attr("__defaults__")
                    self.guards.add("len", at, len(defaults))
                    value = self.read(value, at.item(n - first))
                variables[name] = value
            elif n >= count and name in words:
                value = words[name]
                if source is not None:
                    value = self.read(value, source.attr("__kwdefaults__").value(name))
                variables[name] = value
            else:
                if source is not None:
                    self._guard_defaults(function, source, name)
                raise TypeError(f"{function.__name__}() missing argument {name!r}")

    def _guard_defaults(self, function: Any, source: Any, name: str) -> None:
        """That a variable has no default."""
        for where, found in (
            ("__defaults__", function.__defaults__),
            ("__kwdefaults__", function.__kwdefaults__),
        ):
            if found is None:
                self.guards.add("is", source.attr(where), None)
            elif isinstance(found, tuple):
                self.guards.add("len", source.attr(where), len(found))
            else:
                self.guards.add("absent", source.attr(where), name)
