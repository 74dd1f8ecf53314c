"""The interpreter once more, on real values: each instruction does what Python does.

It runs the one instruction that ended a capture, and the rest of a function where no program can.
Calls are made from a frame that looks like the user's, with their file, line and globals: warnings
and the like name the right place.
"""

from __future__ import annotations

import builtins
import contextlib
import sys
import types
from functools import lru_cache
from typing import Any

from pullback.compiled.interpreter.frames import NULL, Frame
from pullback.compiled.interpreter.instructions import Interpreter
from pullback.compiled.interpreter.library import looks_at_frame
from pullback.compiled.interpreter.sources import MISSING
from pullback.core.mode import settle
from pullback.core.writer import define_once

__all__ = ["Eager"]

_MOST_CALLERS = 1024
_callers: dict[Any, Any] = {}  # by code and position: what calls from there
_HANDLED = (None, None)  # what a handler's loop gives when the exception is dealt with


@lru_cache(4096)
def _placed(file: str, name: str, line: int) -> types.CodeType:
    """The code of a call that stands at a line of the user's."""
    source = "def called(function, args, kwargs): return function(*args, **kwargs)"
    code: Any = compile(source, file, "exec").co_consts[0]
    made: types.CodeType = code.replace(co_firstlineno=line, co_name=name)
    return made


@lru_cache(256)
def _unpacking(before: int, after: int | None) -> Any:
    """What takes a sequence apart, and says what Python says where that cannot be."""
    names = [f"a{n}" for n in range(before)]
    if after is not None:
        names += ["*rest", *[f"b{n}" for n in range(after)]]
    listed = ", ".join(names)
    back = listed.replace("*", "")
    text = f"def apart(value):\n    [{listed}] = value\n    return [{back}]"
    return define_once(text, {}, "unpacking", "apart")


def _caller(frame: Frame) -> Any:
    """A function that calls another from where a frame stands."""
    key = (frame.code, frame.position)
    made = _callers.get(key)
    if made is None or made.__globals__ is not frame.names:
        code = frame.code
        placed = _placed(code.co_filename, code.co_name, frame.origin.line)
        if len(_callers) > _MOST_CALLERS:
            _callers.clear()
        made = _callers[key] = types.FunctionType(placed, frame.names)
    return made


class Eager(Interpreter):
    """Runs frames as Python would."""

    is_eager = True

    def __init__(self) -> None:
        super().__init__(None, settle())
        self.outer: list[Frame] = []  # frames behind whose calls the running one stands

    def run(self, frame: Frame) -> tuple[bool, Any]:
        """Run a frame until it returns (True) or yields (False)."""
        self.frames.append(frame)
        try:
            return self._loop(frame, handling=False)
        finally:
            self.frames.pop()

    def resume(self, frames: list[Frame], error: BaseException | None = None) -> Any:
        """Go on in frames that wait, the last one first; in it an error was raised."""
        value: Any = NULL
        outer = frames[::-1]
        for frame in frames[::-1]:
            self.outer = outer = outer[1:]
            try:
                if error is not None:
                    caught: Any = error
                    error = None
                    value = self._after(frame, caught)
                else:
                    if value is not NULL:
                        frame.stack.append(value)
                    value = self.run(frame)[1]
            except BaseException as found:
                error = found
            caught = None
        try:
            if error is not None:
                raise error
        finally:
            error = None  # else it would hold this frame, and this frame it
        return value

    def _after(self, frame: Frame, error: BaseException) -> Any:
        """Go on in a frame whose last instruction raised."""
        handler = frame.handlers[frame.position - 1]
        self.frames.append(frame)
        try:
            if handler is None:
                raise error
            try:
                raise error  # noqa: TRY301 (it is being handled below, for whoever asks)
            except BaseException as caught:
                self.handle_at(frame, handler, caught)
                made = self._loop(frame, handling=True)
            return (self._loop(frame, handling=False) if made is _HANDLED else made)[1]
        finally:
            del error
            self.frames.pop()

    def one(self, frame: Frame, outer: list[Frame]) -> None:
        """Do the one instruction that a frame stands before; others called it, the last first."""
        self.outer = outer
        self.frames.append(frame)
        try:
            name, arg, value, target, _ = frame.program[frame.position]
            frame.position += 1
            self.table[name](self, frame, arg, value, target)
        finally:
            self.frames.pop()

    def _loop(self, frame: Frame, *, handling: bool) -> tuple[Any, Any]:
        table, program = self.table, frame.program
        while True:
            name, arg, value, target, _ = program[frame.position]
            frame.position += 1
            try:
                done = table[name](self, frame, arg, value, target)
            except BaseException as error:
                handler = frame.handlers[frame.position - 1]
                if handler is None:
                    raise
                self.handle_at(frame, handler, error)
                made = self._loop(frame, handling=True)  # in here, where it is being handled
                if made is not _HANDLED:
                    return made
                continue
            if done is not None:
                return done  # type: ignore[no-any-return]  # of a table
            if handling and name == "POP_EXCEPT":
                return _HANDLED

    def new(self, value: Any) -> Any:
        """Nothing is written down."""
        return value

    constant = admitted = inside = again = new

    def call(self, function: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        """`function(*args, **kwargs)`, from a line of the user's."""
        if looks_at_frame(function, args) and function is not sys._getframe:
            return self._looked(function, args, kwargs)
        kwargs = kwargs or {}
        for frame in (self.frames[-1], *self.outer):
            function, args, kwargs = _caller(frame), (function, args, kwargs), {}
        return function(*args)

    def _looked(self, function: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """`locals`, `vars`, `dir`, `eval` or `exec` of the variables of the frame."""
        frame = self.frames[-1]
        found = dict(frame.variables)
        for name, cell in frame.cells.items():
            with contextlib.suppress(ValueError):  # one without a value
                found[name] = cell.cell_contents
        if kwargs:  # the namespaces, by name
            return function(*args, **kwargs)
        if function in (eval, exec):
            return function(*args, frame.names, found)
        return sorted(found) if function is dir else found

    def cell(self, cell: Any) -> Any:
        """What a closure's variable is."""
        return cell.cell_contents

    def set_cell(self, cell: Any, value: Any) -> None:
        """Write a closure's variable."""
        cell.cell_contents = value

    def _global(self, f: Frame, val: str) -> Any:
        found = f.names.get(val, MISSING)
        if found is MISSING:
            known = f.names.get("__builtins__", builtins)
            table = known if isinstance(known, dict) else vars(known)
            if val not in table:
                raise NameError(f"name {val!r} is not defined")
            found = table[val]
        return found

    def dict_get(self, table: Any, key: Any) -> Any:
        """An item of a dictionary."""
        return table.get(key, MISSING)

    def set_item(self, value: Any, key: Any, new: Any) -> None:
        """A global is written."""
        value[key] = new

    def set_at(self, owner: Any, key: Any, value: Any) -> None:
        """`owner[key] = value`."""
        owner[key] = value

    def del_item(self, value: Any, key: Any) -> None:
        """A global is deleted."""
        del value[key]

    def delete_at(self, owner: Any, key: Any) -> None:
        """`del owner[key]`."""
        del owner[key]

    def load_attr(self, value: Any, name: str) -> Any:
        """`value.name`."""
        return getattr(value, name)

    def store_attr(self, value: Any, name: str, new: Any, *, plainly: bool = False) -> None:
        """`value.name = new`."""
        setattr(value, name, new)

    def delete_attr(self, value: Any, name: str) -> None:
        """`del value.name`."""
        delattr(value, name)

    def get_item(self, value: Any, key: Any) -> Any:
        """`value[key]`."""
        return value[key]

    def binary(self, function: Any, a: Any, b: Any) -> Any:
        """`a + b` and its like."""
        return function(a, b)

    def unary(self, function: Any, a: Any) -> Any:
        """`-a` and its like."""
        return function(a)

    def is_in(self, value: Any, key: Any) -> bool:
        """`key in value`."""
        return key in value

    def truth(self, value: Any) -> bool:
        """`bool(value)`."""
        return bool(value)

    def text_of(self, value: Any, how: Any, *more: Any) -> Any:
        """The text of a value."""
        return how(value, *more)

    def hashable(self, key: Any) -> None:
        """Whatever Python takes."""

    def builtin_len(self, value: Any) -> Any:
        """`len`."""
        return len(value)

    def builtin_iter(self, value: Any, *more: Any) -> Any:
        """`iter`."""
        return iter(value, *more)

    def builtin_next(self, value: Any, *default: Any) -> Any:
        """`next`."""
        return next(value, *default)

    def builtin_isinstance(self, value: Any, kinds: Any) -> bool:
        """`isinstance`."""
        return isinstance(value, kinds)

    def builtin_getattr(self, value: Any, name: str, *default: Any) -> Any:
        """`getattr`."""
        return getattr(value, name, *default)

    def _mapping(self, value: Any) -> dict[Any, Any]:
        return {**value}  # which says what Python says where it is none

    def _special(self, value: Any, name: str) -> Any:
        for base in type(value).__mro__:
            if name in vars(base):
                found = vars(base)[name]
                return found.__get__(value, type(value)) if hasattr(found, "__get__") else found
        raise TypeError(
            f"{type(value).__name__!r} object does not support the context manager protocol"
        )

    def UNPACK_SEQUENCE(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack += reversed(_unpacking(arg, None)(f.stack.pop()))

    def UNPACK_EX(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack += reversed(_unpacking(arg & 255, arg >> 8)(f.stack.pop()))

    def LIST_EXTEND(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        value = f.stack.pop()
        try:
            walk = iter(value)
        except TypeError:
            if hasattr(type(value), "__iter__") or hasattr(type(value), "__getitem__"):
                raise
            name = type(value).__name__
            raise TypeError(f"Value after * must be an iterable, not {name}") from None
        f.stack[-arg].extend(walk)

    def _got(self, owner: Any, key: Any) -> Any:
        return owner.get(key, NULL)

    def CALL_FUNCTION_EX(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        kwargs = f.stack.pop() if arg & 1 else {}
        args = f.stack.pop()
        above, below = f.stack.pop(), f.stack.pop()
        function = above if below is NULL else below
        f.stack.append(self.call(function, args, {} if kwargs is NULL else kwargs))

    def IS_OP(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        b, a = f.stack.pop(), f.stack.pop()
        f.stack.append((a is b) != bool(arg))

    def IMPORT_NAME(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        names, level = f.stack.pop(), f.stack.pop()
        f.stack.append(self.call(builtins.__import__, (val, f.names, None, names, level)))

    def WITH_EXCEPT_START(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        error = f.stack[-1]
        f.stack.append(self.call(f.stack[-arg], (type(error), error, error.__traceback__)))

    def RAISE_VARARGS(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        if arg < 2:
            Interpreter.RAISE_VARARGS(self, f, arg, val, to)
        cause, error = f.stack.pop(), f.stack.pop()
        raise error from cause

    def _handled(self) -> BaseException:
        error = sys.exc_info()[1]
        if error is None:
            raise RuntimeError("No active exception to reraise")
        return error


Eager.table = Interpreter.table | {name: one for name, one in vars(Eager).items() if name.isupper()}
