"""One method for each instruction: (frame, argument, what it stands for, jump target).

The instructions are those that versions.py writes any version's bytecode in.
"""

from __future__ import annotations

import builtins
import operator
import sys
import types
from typing import Any, NamedTuple

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter.frames import NULL, Frame, Saved
from pullback.compiled.interpreter.natively import is_theirs, natively
from pullback.compiled.interpreter.running import Running
from pullback.compiled.interpreter.sources import DICTS, MISSING
from pullback.compiled.interpreter.versions import BINARY, COMPARE

__all__ = ["Interpreter"]


class _Handled(NamedTuple):
    """Lies on the stack while the handler of an exception runs."""

    error: BaseException


def _unbound(name: str) -> UnboundLocalError:
    return UnboundLocalError(
        f"cannot access local variable {name!r} where it is not associated with a value"
    )


def _popped(f: Frame, count: int) -> list[Any]:
    items = f.stack[len(f.stack) - count :]
    del f.stack[len(f.stack) - count :]
    return items


class Interpreter(Running):
    """Runs functions; instructions that differ by table only are added below."""

    # Variables ----------------------------------------------------------------------------------

    def LOAD_FAST(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        if val in f.variables:
            f.stack.append(f.variables[val])
        elif val in f.cells:  # for a closure, which takes the cell itself
            f.stack.append(f.cells[val])
        else:
            raise _unbound(val)

    def STORE_FAST(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        value = f.stack.pop()
        if type(value) is Saved:
            f.put_back(val, value)
        else:
            f.variables[val] = value

    def DELETE_FAST(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        if val not in f.variables:
            raise _unbound(val)
        del f.variables[val]

    def LOAD_FAST_AND_CLEAR(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack.append(f.take_out(val))

    def MAKE_CELL(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        cell = f.cells[val] = self.new(types.CellType())
        if val in f.variables:
            cell.cell_contents = f.variables.pop(val)

    def LOAD_DEREF(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        try:
            f.stack.append(self.cell(f.cells[val]))
        except ValueError:
            raise NameError(
                f"cannot access free variable {val!r} where it is not associated with a value in "
                "enclosing scope"
            ) from None

    def STORE_DEREF(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        self.set_cell(f.cells[val], f.stack.pop())

    def DELETE_DEREF(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        if id(f.cells[val]) not in self.made:
            raise CannotCapture("a variable of a closure is deleted")
        self.touched += 1
        natively(delattr, f.cells[val], "cell_contents")

    def LOAD_GLOBAL(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack.append(self._global(f, val))

    def _global(self, f: Frame, val: str) -> Any:
        if f.trusted:
            return f.names[val] if val in f.names else getattr(builtins, val)
        found = self.dict_get(self.constant(f.names), val)
        if found is MISSING:
            found = self.dict_get(self.constant(vars(builtins)), val)
            if found is MISSING:
                raise NameError(f"name {val!r} is not defined")
        return found

    def LOAD_NAME(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack.append(self._global(f, val))

    def STORE_GLOBAL(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        self.set_item(self.constant(f.names), val, f.stack.pop())

    def DELETE_GLOBAL(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        names = self.constant(f.names)
        if self.dict_get(names, val) is MISSING:
            raise NameError(f"name {val!r} is not defined")
        self.del_item(names, val)

    # Attributes and items -----------------------------------------------------------------------

    def LOAD_ATTR(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack[-1] = self.load_attr(f.stack[-1], val)

    def LOAD_SUPER_ATTR(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        function, *given = _popped(f, 3)
        is_written = bool(arg & 2)  # super(kind, owner), or that which the name stands for here
        args = tuple(given) if is_written or function is super else ()
        f.stack.append(self.load_attr(self.call(function, args), val))

    def STORE_ATTR(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        owner, value = f.stack.pop(), f.stack.pop()
        self.store_attr(owner, val, value)

    def DELETE_ATTR(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        self.delete_attr(f.stack.pop(), val)

    def BINARY_SUBSCR(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        key = f.stack.pop()
        f.stack[-1] = self.get_item(f.stack[-1], key)

    def STORE_SUBSCR(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        key, owner, value = f.stack.pop(), f.stack.pop(), f.stack.pop()
        self.set_at(owner, key, value)

    def DELETE_SUBSCR(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        key, owner = f.stack.pop(), f.stack.pop()
        self.delete_at(owner, key)

    # Operators ----------------------------------------------------------------------------------

    def BINARY_OP(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        b, a = f.stack.pop(), f.stack.pop()
        f.stack.append(self.binary(BINARY[arg], a, b))

    def COMPARE_OP(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        b, a = f.stack.pop(), f.stack.pop()
        f.stack.append(self.binary(COMPARE[val], a, b))

    def IS_OP(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        b, a = f.stack.pop(), f.stack.pop()
        f.stack.append(self.identical(a, b) != bool(arg))

    def CONTAINS_OP(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        b, a = f.stack.pop(), f.stack.pop()
        f.stack.append(self.is_in(b, a) != bool(arg))

    # The stack ----------------------------------------------------------------------------------

    def POP_TOP(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack.pop()

    def SWAP(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack[-1], f.stack[-arg] = f.stack[-arg], f.stack[-1]

    def FOR_ITER(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        try:
            f.stack.append(self.builtin_next(f.stack[-1]))
        except StopIteration:
            f.stack.pop()
            f.position = to

    # Containers ---------------------------------------------------------------------------------

    def BUILD_SET(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        items = _popped(f, arg)
        for one in items:
            self.hashable(one)
        f.stack.append(self.new(set(items)))

    def BUILD_MAP(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        items = _popped(f, 2 * arg)
        for key in items[::2]:
            self.hashable(key)
        f.stack.append(self.new(dict(zip(items[::2], items[1::2], strict=True))))

    def BUILD_CONST_KEY_MAP(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        keys = f.stack.pop()
        f.stack.append(self.new(dict(zip(keys, _popped(f, arg), strict=True))))

    def CONVERT_VALUE(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack[-1] = self.text_of(f.stack[-1], {1: str, 2: repr, 3: ascii}[arg])

    def FORMAT_WITH_SPEC(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        spec = f.stack.pop()
        f.stack[-1] = self.text_of(f.stack[-1], format, spec)

    def LIST_APPEND(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        value = f.stack.pop()
        self.touched += 1
        f.stack[-arg].append(value)

    def SET_ADD(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        value = f.stack.pop()
        self.hashable(value)
        self.touched += 1
        f.stack[-arg].add(value)

    def MAP_ADD(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        value, key = f.stack.pop(), f.stack.pop()
        self.hashable(key)
        self.touched += 1
        f.stack[-arg][key] = value

    def LIST_EXTEND(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        items = list(self.builtin_iter(f.stack.pop()))
        f.stack[-arg].extend(items)

    def SET_UPDATE(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        items = list(self.builtin_iter(f.stack.pop()))
        for one in items:
            self.hashable(one)
        f.stack[-arg].update(items)

    def DICT_UPDATE(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack[-1 - arg].update(self._mapping(f.stack[-1]))
        f.stack.pop()

    def _mapping(self, value: Any) -> dict[Any, Any]:
        if isinstance(value, dict) and id(value) in self.made:
            return value
        made: dict[Any, Any] = self._build(dict, (value,), {})
        return made

    def DICT_MERGE(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        more = self._mapping(f.stack.pop())
        into = f.stack[-arg]
        for name in more:
            if name in into:
                raise TypeError(f"got multiple values for keyword argument {name!r}")
        into.update(more)

    def UNPACK_SEQUENCE(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        items = list(self.builtin_iter(f.stack.pop()))
        if len(items) != arg:
            raise ValueError(f"expected {arg} values to unpack, got {len(items)}")
        f.stack += reversed(items)

    def UNPACK_EX(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        items = list(self.builtin_iter(f.stack.pop()))
        before, after = arg & 255, arg >> 8
        if len(items) < before + after:
            raise ValueError("not enough values to unpack")
        end = len(items) - after
        f.stack += reversed([*items[:before], self.new(items[before:end]), *items[end:]])

    # Functions ----------------------------------------------------------------------------------

    def MAKE_FUNCTION(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        code = f.stack.pop()
        no_closure = tuple([types.CellType() for _ in code.co_freevars])  # until it is given
        f.stack.append(self._function(f, code, no_closure))

    def _function(self, f: Frame, code: types.CodeType, closure: tuple[Any, ...]) -> Any:
        return self.new(types.FunctionType(code, f.names, code.co_name, None, closure))

    def SET_FUNCTION_ATTRIBUTE(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        made, value = f.stack.pop(), f.stack.pop()
        if arg == 1:
            made.__defaults__ = value
        elif arg == 2:
            made.__kwdefaults__ = value
        elif arg == 4:
            made.__annotations__ = dict(zip(value[::2], value[1::2], strict=True))
        elif arg == 8:  # comes first
            made = self._function(f, made.__code__, value)
        else:
            made.__annotate__ = value
        f.stack.append(made)

    def IMPORT_NAME(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        names, level = f.stack.pop(), f.stack.pop()
        if level:
            package = self._global(f, "__package__")
            val = ".".join([*package.rsplit(".", level - 1)[:1], *([val] if val else [])])
        if val not in sys.modules:
            raise CannotCapture(f"{val} is imported for the first time")
        modules = self.constant(sys.modules)
        f.stack.append(self.dict_get(modules, val if names or level else val.partition(".")[0]))

    def KW_NAMES(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.kwnames = f.code.co_consts[arg]

    def CALL(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        names, f.kwnames = f.kwnames, ()
        args = _popped(f, arg)
        function, first = _popped(f, 2)
        if function is NULL:
            function = first
        elif first is not NULL:
            args = [first, *args]
        count = len(args) - len(names)
        if function is super and not args:
            f.stack.append(self._super(f))
            return
        words = dict(zip(names, args[count:], strict=True))
        self.tail = True
        f.stack.append(self.call(function, tuple(args[:count]), words))

    def CALL_KW(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.kwnames = f.stack.pop()
        self.CALL(f, arg, val, to)

    def _super(self, f: Frame) -> Any:
        name = f.code.co_varnames[0]
        owner = f.variables[name] if name in f.variables else f.cells[name].cell_contents
        return self.new(super(f.cells["__class__"].cell_contents, owner))

    def CALL_FUNCTION_EX(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        kwargs = f.stack.pop() if arg & 1 else {}
        args = f.stack.pop()
        below, above = _popped(f, 2)
        function = above if below is NULL else below
        words = {} if kwargs is NULL or not kwargs else dict(self._mapping(kwargs))
        given = tuple(self.builtin_iter(args))
        self.tail = True
        f.stack.append(self.call(function, given, words))

    def RETURN_VALUE(self, f: Frame, arg: Any, val: Any, to: Any) -> Any:
        return True, f.stack.pop()

    def RETURN_GENERATOR(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack.append(None)  # popped by the POP_TOP that follows

    def YIELD_VALUE(self, f: Frame, arg: Any, val: Any, to: Any) -> Any:
        return False, f.stack.pop()

    def SEND(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        sent = f.stack.pop()
        try:
            if sent is not None:
                self.touched += 1
                f.stack.append(f.stack[-1].send(sent))
            else:
                f.stack.append(self.builtin_next(f.stack[-1]))
        except StopIteration as end:
            f.stack[-1] = end.value
            f.position = to

    # Exceptions ---------------------------------------------------------------------------------

    def PUSH_EXC_INFO(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        error = f.stack.pop()
        f.stack += (_Handled(error), error)

    def POP_EXCEPT(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack.pop()

    def CHECK_EXC_MATCH(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        kinds = self.inside(f.stack.pop())
        f.stack.append(natively(isinstance, f.stack[-1], kinds))

    def RERAISE(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        self.raised = f.stack.pop()
        raise self.raised

    def RAISE_VARARGS(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        cause = f.stack.pop() if arg == 2 else None
        error = f.stack.pop() if arg else None
        if error is None:
            error = self._handled()
        if isinstance(error, type):
            error = self.call(error)
        if cause is not None:
            error.__cause__ = cause
        self.raised = error
        raise error

    def _handled(self) -> BaseException:
        """The exception whose handler runs now, here or in a caller."""
        for frame in reversed(self.frames):
            for one in reversed(frame.stack):
                if type(one) is _Handled:
                    return one.error
        raise RuntimeError("raise without an exception, where none is handled")

    def BEFORE_WITH(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        manager = f.stack.pop()
        leave = self._special(manager, "__exit__")
        f.stack.append(leave)
        f.stack.append(self.call(self._special(manager, "__enter__")))

    def LOAD_SPECIAL(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack[-1] = self._special(f.stack[-1], val)

    def _special(self, value: Any, name: str) -> Any:
        if id(value) in self.native:
            return self.load_attr(value, name)
        found, _ = self.class_lookup(type(value), name)
        if found is MISSING:
            raise TypeError(
                f"{type(value).__name__!r} object does not support the context manager protocol"
            )
        return self.bound(found, value, type(value), name)

    def WITH_EXCEPT_START(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        error = f.stack[-1]
        f.stack.append(self.call(f.stack[-arg], (type(error), error, None)))

    # Patterns -----------------------------------------------------------------------------------

    def MATCH_KEYS(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        keys, owner = f.stack[-1], f.stack[-2]
        values = [self._got(owner, key) for key in keys]
        f.stack.append(None if any(one is NULL for one in values) else self.new(tuple(values)))

    def _got(self, owner: Any, key: Any) -> Any:
        """What a mapping's own `get` gives, NULL where that is nothing."""
        if type(owner) in DICTS:
            found = self.dict_get(owner, key)
            return NULL if found is MISSING else found
        return self.call(self.load_attr(owner, "get"), (key, NULL))

    def MATCH_CLASS(self, f: Frame, arg: Any, val: Any, to: Any) -> None:
        value, kind, names = _popped(f, 3)
        if not isinstance(kind, type):
            raise TypeError("a pattern with parentheses needs a class before them")
        found: Any = None
        if self.builtin_isinstance(value, kind):
            try:
                found = self._matched(value, kind, arg, names)
            except AttributeError as error:
                if not is_theirs(error):
                    raise
        f.stack.append(found)

    def _matched(self, value: Any, kind: type, count: int, names: tuple[str, ...]) -> Any:
        """What a pattern of a class binds: parts by place, then parts by name."""
        order = self.builtin_getattr(kind, "__match_args__", ())
        order = tuple(self.builtin_iter(order))
        by_itself = count == 1 and not order and issubclass(kind, _MATCHED_WHOLE)
        if count > len(order) and not by_itself:
            raise TypeError(f"{kind.__name__}() takes {len(order)} patterns by place, not {count}")
        parts = [value] if by_itself else [self.load_attr(value, one) for one in order[:count]]
        parts += [self.load_attr(value, name) for name in names]
        return self.new(tuple(parts))


# Classes whose pattern may have one part: the value itself.
_MATCHED_WHOLE = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def _imported(self: Interpreter, module: Any, name: str) -> Any:
    """`from module import name`."""
    try:
        return self.load_attr(module, name)
    except AttributeError as error:
        called = getattr(module, "__name__", "?")
        if f"{called}.{name}" in sys.modules:
            raise CannotCapture(
                f"{called}.{name}, a module that its package does not name"
            ) from None
        raise ImportError(f"cannot import name {name!r} from {called!r}", name=name) from error


def _text_of(self: Interpreter, f: Frame, arg: int) -> str:
    return "".join(_popped(f, arg))


# Instructions that push one value, and those that replace the top of the stack.
_PUSH: dict[str, Any] = {
    "LOAD_CONST": lambda self, f, arg, val: val,
    "PUSH_NULL": lambda self, f, arg, val: NULL,
    "COPY": lambda self, f, arg, val: f.stack[-arg],
    "BUILD_TUPLE": lambda self, f, arg, val: self.new(tuple(_popped(f, arg))),
    "BUILD_LIST": lambda self, f, arg, val: self.new(_popped(f, arg)),
    "BUILD_SLICE": lambda self, f, arg, val: self.new(slice(*_popped(f, arg))),
    "BUILD_STRING": lambda self, f, arg, val: _text_of(self, f, arg),
    "IMPORT_FROM": lambda self, f, arg, val: _imported(self, f.stack[-1], val),
    "GET_LEN": lambda self, f, arg, val: self.builtin_len(f.stack[-1]),
    "MATCH_SEQUENCE": lambda self, f, arg, val: bool(type(f.stack[-1]).__flags__ & (1 << 5)),
    "MATCH_MAPPING": lambda self, f, arg, val: bool(type(f.stack[-1]).__flags__ & (1 << 6)),
}
_TOP: dict[str, Any] = {
    "TO_BOOL": lambda self, top: self.truth(top),
    "FORMAT_SIMPLE": lambda self, top: self.text_of(top, format, ""),
    "UNARY_NOT": lambda self, top: not self.truth(top),
    "UNARY_NEGATIVE": lambda self, top: self.unary(operator.neg, top),
    "UNARY_INVERT": lambda self, top: self.unary(operator.invert, top),
    "UNARY_POSITIVE": lambda self, top: self.unary(operator.pos, top),
    "GET_ITER": lambda self, top: self.builtin_iter(top),
    "LIST_TO_TUPLE": lambda self, top: self.new(tuple(top)),
    "GET_YIELD_FROM_ITER": lambda self, top: self.builtin_iter(top),
}


def _pushing(compute: Any) -> Any:
    def instruction(self: Interpreter, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack.append(compute(self, f, arg, val))

    return instruction


def _replacing(compute: Any) -> Any:
    def instruction(self: Interpreter, f: Frame, arg: Any, val: Any, to: Any) -> None:
        f.stack[-1] = compute(self, f.stack[-1])

    return instruction


def _jumping_if(wanted: bool, stays: bool) -> Any:
    def instruction(self: Interpreter, f: Frame, arg: Any, val: Any, to: Any) -> None:
        value = f.stack.pop()
        if self.truth(value) is wanted:
            f.position = to
            if stays:
                f.stack.append(value)

    return instruction


def _jumping_at_none(wanted: bool) -> Any:
    def instruction(self: Interpreter, f: Frame, arg: Any, val: Any, to: Any) -> None:
        if (f.stack.pop() is None) is wanted:
            f.position = to

    return instruction


def _jump(self: Interpreter, f: Frame, arg: Any, val: Any, to: Any) -> None:
    f.position = to


# Jumps: what is asked of the top of the stack, and whether it stays when the jump is taken.
_JUMPS: dict[str, Any] = {
    "JUMP": _jump,
    "POP_JUMP_IF_TRUE": _jumping_if(True, False), "POP_JUMP_IF_FALSE": _jumping_if(False, False),
    "JUMP_IF_TRUE_OR_POP": _jumping_if(True, True),
    "JUMP_IF_FALSE_OR_POP": _jumping_if(False, True),
    "POP_JUMP_IF_NONE": _jumping_at_none(True), "POP_JUMP_IF_NOT_NONE": _jumping_at_none(False),
}  # fmt: skip

Interpreter.table = {name: one for name, one in vars(Interpreter).items() if name.isupper()}
Interpreter.table |= _JUMPS
Interpreter.table |= {name: _pushing(one) for name, one in _PUSH.items()}
Interpreter.table |= {name: _replacing(one) for name, one in _TOP.items()}
