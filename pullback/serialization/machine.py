"""A reader of pickles that runs no code: what `load(weights_only=True)` uses.

Pickle is a small stack machine. This one has its instructions for numbers, text and containers;
calls only what is on a list, with arguments checked; sets attributes only on objects that it has
made itself; and counts memory before it takes any. Everything else ends in UnpicklingError.
"""

from __future__ import annotations

import codecs
import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from types import BuiltinMethodType, MethodType
from typing import IO, Any, ClassVar

from pullback.core.tensor import Tensor
from pullback.serialization import rebuild
from pullback.serialization.budget import Budget, refuse
from pullback.serialization.forbidden import is_forbidden, runs_programs
from pullback.serialization.names import CALLS, check_key, known_global, todays_name

__all__ = ["Machine"]

_MARK = object()
# What a broken pickle ends in here: an empty stack, a missing memo, text that is none, ...
_BROKEN = (
    *(IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError),
    *(RecursionError, struct.error),
)
# Rough sizes of objects in CPython.
_SLOT, _SMALL, _LIST, _DICT, _SET, _ENTRY = 8, 32, 64, 64, 216, 100


class Machine:
    """Reads one pickle from a file, up to its end."""

    operations: ClassVar[dict[int, Callable[[Machine], None]]] = {}

    def __init__(
        self,
        file: IO[bytes],
        size: int,
        storage: Callable[[Any], Any],
        budget: Budget,
        allowed: dict[tuple[str, str], Any],
        encoding: str = "utf-8",
        errors: str = "strict",
    ) -> None:
        """Read from `file`, which has `size` bytes left; `storage` finds a tensor's memory."""
        self._file = file
        self._left = size
        self._storage = storage
        self._budget = budget
        self._allowed = allowed
        self._encoding = encoding
        self._errors = errors
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        # By id, with the object, so that no id is taken twice.
        self._made: dict[int, Any] = {}
        self._users_error: BaseException | None = None

    def load(self) -> Any:
        """The object that the pickle describes."""
        operations, stop = self.operations, pickle.STOP[0]
        try:
            while (code := self._bytes(1)[0]) != stop:
                operation = operations.get(code)
                if operation is None:
                    raise refuse(f"it has the pickle instruction {bytes([code])!r}, which no "
                                 "file of tensors needs")  # fmt: skip
                operation(self)
            return self._pop()
        except pickle.UnpicklingError:
            raise
        except _BROKEN as error:
            if error is self._users_error:
                raise
            raise pickle.UnpicklingError(
                f"load(): the pickle in the file fails: {error}"
            ) from error

    # What operations need

    def _bytes(self, count: int) -> bytes:
        if count > self._left:
            raise EOFError("load(): the file ends in the middle of an object.")
        self._left -= count
        found = self._file.read(count)
        if len(found) != count:
            raise EOFError("load(): the file ends in the middle of an object.")
        return found

    def _line(self) -> bytes:
        found = self._file.readline(self._left)
        self._left -= len(found)
        if not found.endswith(b"\n"):
            raise EOFError("load(): the file ends in the middle of an object.")
        return found[:-1]

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self._bytes(struct.calcsize(form)))[0]

    def _push(self, value: Any, size: int) -> None:
        self._budget.spend(size + _SLOT)
        self._stack.append(value)

    def _pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise refuse("its pickle's stack is out of order")
        return value

    def _pop_mark(self) -> list[Any]:
        stack = self._stack
        place = len(stack) - 1
        while stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise refuse("its pickle's stack is out of order")
        items = stack[place + 1 :]
        del stack[place:]
        return items

    def _top(self) -> Any:
        value = self._stack[-1]
        if value is _MARK:
            raise refuse("its pickle's stack is out of order")
        return value

    def _remember(self, place: int) -> None:
        self._budget.spend(_ENTRY)
        self._memo[place] = self._top()

    # Names and calls

    def _find(self, module: str, name: str) -> Any:
        known = self._allowed.get((module, name))
        if known is None:
            known = self._allowed.get(todays_name(module, name))
        if is_forbidden(module, name) or (known is not None and runs_programs(known)):
            raise pickle.UnpicklingError(
                f"The file wants to use {module}.{name}, which can run programs or code. "
                "weights_only=True never allows that, whatever add_safe_globals was given."
            )
        if known is None:
            known = known_global(module, name)
        if known is None:
            raise pickle.UnpicklingError(
                f"The file wants to use {module}.{name}, which weights_only=True does not allow. "
                "If you trust its source, pass weights_only=False, or allow it with "
                "torch.serialization.add_safe_globals."
            )
        return known

    def _is_allowed(self, target: Any) -> bool:
        if isinstance(
            target, MethodType | BuiltinMethodType
        ):  # made anew each time it is asked for
            return any(target == one for one in self._allowed.values())
        return any(target is one for one in self._allowed.values())

    def _call(self, target: Any, args: Any) -> None:
        """Push what a call returns, if it may be made."""
        if type(args) is not tuple:
            raise refuse("a call in it has no arguments")
        if target is getattr and self._is_allowed(target):
            self._attribute(*args)
            return
        if self._is_allowed(target):
            self._keep(target(*args))
            return
        try:
            if callable(target) and rebuild.is_rebuild(target):
                made = rebuild.make(target, self._budget, args)
            elif callable(target) and target in CALLS:
                made = CALLS[target](self._budget, *args)
            else:
                raise refuse(f"it calls a {type(target).__name__} that it must not call")
        except RuntimeError as error:  # a shape, device or dtype that cannot be
            raise refuse(str(error)) from error
        self._keep(made)

    def _attribute(self, owner: Any, name: Any) -> None:
        """Push what stands in a class that the user allows, as pickles name nested classes.

        It is nothing that this load has made, and may be called only if it is allowed itself.
        """
        if not self._is_allowed(owner) or type(name) is not str or name.startswith("__"):
            raise refuse(f"it asks for {name!r:.50} of something that was not allowed")
        self._push(getattr(owner, name), _SMALL)

    def _keep(self, made: Any) -> None:
        """Push an object of this load's making; its attributes may be set later."""
        self._push(made, 2 * _SET if isinstance(made, Tensor) else _SET)
        if isinstance(made, Tensor | OrderedDict) or self._is_allowed(type(made)):
            self._made[id(made)] = made

    def _new(self, kind: Any, args: Any) -> None:
        if isinstance(kind, type) and self._is_allowed(kind) and type(args) is tuple:
            self._keep(kind.__new__(kind, *args))
        else:
            self._call(kind, args)

    def _build(self) -> None:
        """Give the top of the stack its state, if it was made here and is of a known class."""
        state = self._pop()
        target = self._top()
        if self._made.get(id(target), _MARK) is not target:
            raise refuse(f"it sets attributes of a {type(target).__name__} that it has not made")
        if self._is_allowed(type(target)):
            rebuild.restore(target, state, self._budget)
        else:
            rebuild.set_attributes(target, state, self._budget)

    # Containers

    def _extend(self, items: list[Any]) -> None:
        target = self._top()
        if type(target) is not list:
            if not self._is_allowed(type(target)) or id(target) not in self._made:
                raise refuse(f"it appends to a {type(target).__name__}")
            target.extend(items)
            return
        self._budget.spend(_SLOT * len(items))
        target.extend(items)

    def _set_items(self, items: list[Any]) -> None:
        target = self._top()
        if type(target) not in (dict, OrderedDict, Counter) and not (
            self._is_allowed(type(target)) and id(target) in self._made
        ):
            raise refuse(f"it sets items of a {type(target).__name__}")
        if len(items) % 2:
            raise refuse("a key of a dict has no value")
        self._budget.spend(_ENTRY * len(items) // 2)
        for key, value in zip(items[::2], items[1::2], strict=True):
            check_key(key)
            target[key] = value

    def _add_items(self, items: list[Any]) -> None:
        target = self._top()
        if type(target) is not set:
            raise refuse(f"it adds elements to a {type(target).__name__}")
        self._budget.spend(_ENTRY * len(items))
        for one in items:
            check_key(one)
            target.add(one)

    def _frozen(self) -> None:
        items = self._pop_mark()
        self._call(frozenset, (items,))

    def _tuple(self, count: int) -> None:
        items = [self._pop() for _ in range(count)]
        self._push(tuple(items[::-1]), 48 + _SLOT * count)

    def _marked_tuple(self) -> None:
        items = tuple(self._pop_mark())
        self._push(items, 48 + _SLOT * len(items))

    def _marked_list(self) -> None:
        items = self._pop_mark()
        self._push(items, _LIST + _SLOT * len(items))

    def _marked_dict(self) -> None:
        items = self._pop_mark()
        self._push({}, _DICT)
        self._set_items(items)

    # Text and numbers

    def _text(self, form: str) -> None:
        raw = self._bytes(self._number(form))
        self._push(raw.decode("utf-8", "surrogatepass"), 80 + 4 * len(raw))

    def _raw(self, form: str, kind: Callable[[bytes], Any] = bytes) -> None:
        raw = self._bytes(self._number(form))
        self._push(kind(raw), _LIST + len(raw))

    def _old_string(self, raw: bytes) -> None:
        """A string of Python 2, which was bytes."""
        text = raw if self._encoding == "bytes" else raw.decode(self._encoding, self._errors)
        self._push(text, 80 + 4 * len(raw))

    def _quoted(self) -> None:
        text = self._line()
        if len(text) < 2 or text[:1] != text[-1:] or text[:1] not in (b"'", b'"'):
            raise refuse("a string in it has no quotes")
        self._old_string(codecs.escape_decode(text[1:-1])[0])

    def _escaped(self) -> None:
        raw = self._line()
        self._push(raw.decode("raw-unicode-escape"), 80 + 4 * len(raw))

    def _long(self, form: str) -> None:
        count = self._number(form)
        if count < 0:
            raise refuse("a number in it has a negative length")
        raw = self._bytes(count)
        self._push(int.from_bytes(raw, "little", signed=True), _SMALL + 2 * count)

    def _text_int(self) -> None:
        text = self._line()
        known = {b"00": False, b"01": True}
        self._push(known[text] if text in known else int(text.rstrip(b"L")), _SMALL + len(text))

    def _protocol(self) -> None:
        protocol = self._bytes(1)[0]
        if protocol > pickle.HIGHEST_PROTOCOL:
            raise refuse(f"it is a pickle of protocol {protocol}, which does not exist")

    def _frame(self) -> None:
        if self._number("<Q") > self._left:
            raise EOFError("load(): the file ends in the middle of an object.")

    def _memoize(self) -> None:
        self._remember(len(self._memo))

    def _global(self) -> None:
        module = self._line().decode()
        self._push(self._find(module, self._line().decode()), _SMALL)

    def _stack_global(self) -> None:
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise refuse("a name in it is no text")
        self._push(self._find(module, name), _SMALL)

    def _reduce(self) -> None:
        args = self._pop()
        self._call(self._pop(), args)

    def _new_object(self) -> None:
        args = self._pop()
        self._new(self._pop(), args)

    def _persistent(self) -> None:
        reference = self._pop()
        try:
            storage = self._storage(reference)
        except _BROKEN as error:  # of a map_location function
            self._users_error = error
            raise
        self._push(storage, _SET)


def _pushes(value: Any, size: int = 0) -> Callable[[Machine], None]:
    return lambda m: m._push(value, size)


def _numbers(form: str) -> Callable[[Machine], None]:
    return lambda m: m._push(m._number(form), _SMALL)


def _puts(form: str) -> Callable[[Machine], None]:
    return lambda m: m._remember(m._number(form))


def _gets(form: str) -> Callable[[Machine], None]:
    return lambda m: m._push(m._memo[m._number(form)], 0)


def _drop(m: Machine) -> None:
    m._stack.pop()


def _drop_to_mark(m: Machine) -> None:
    m._pop_mark()


_OPERATIONS: dict[bytes, Callable[[Machine], None]] = {
    pickle.PROTO: Machine._protocol,
    pickle.FRAME: Machine._frame,
    pickle.MARK: _pushes(_MARK),
    pickle.POP: _drop,
    pickle.POP_MARK: _drop_to_mark,
    pickle.DUP: lambda m: m._push(m._top(), 0),
    # Constants and numbers
    pickle.NONE: _pushes(None),
    pickle.NEWTRUE: _pushes(True),
    pickle.NEWFALSE: _pushes(False),
    pickle.INT: Machine._text_int,
    pickle.LONG: Machine._text_int,
    pickle.BININT: _numbers("<i"),
    pickle.BININT1: _numbers("<B"),
    pickle.BININT2: _numbers("<H"),
    pickle.LONG1: lambda m: m._long("<B"),
    pickle.LONG4: lambda m: m._long("<i"),
    pickle.FLOAT: lambda m: m._push(float(m._line()), _SMALL),
    pickle.BINFLOAT: _numbers(">d"),
    # Text and bytes
    pickle.STRING: Machine._quoted,
    pickle.BINSTRING: lambda m: m._old_string(m._bytes(m._number("<I"))),
    pickle.SHORT_BINSTRING: lambda m: m._old_string(m._bytes(m._number("<B"))),
    pickle.UNICODE: Machine._escaped,
    pickle.BINUNICODE: lambda m: m._text("<I"),
    pickle.SHORT_BINUNICODE: lambda m: m._text("<B"),
    pickle.BINUNICODE8: lambda m: m._text("<Q"),
    pickle.BINBYTES: lambda m: m._raw("<I"),
    pickle.SHORT_BINBYTES: lambda m: m._raw("<B"),
    pickle.BINBYTES8: lambda m: m._raw("<Q"),
    pickle.BYTEARRAY8: lambda m: m._raw("<Q", bytearray),
    # Containers
    pickle.EMPTY_TUPLE: _pushes(()),
    pickle.EMPTY_LIST: lambda m: m._push([], _LIST),
    pickle.EMPTY_DICT: lambda m: m._push({}, _DICT),
    pickle.EMPTY_SET: lambda m: m._push(set(), _SET),
    pickle.TUPLE: Machine._marked_tuple,
    pickle.TUPLE1: lambda m: m._tuple(1),
    pickle.TUPLE2: lambda m: m._tuple(2),
    pickle.TUPLE3: lambda m: m._tuple(3),
    pickle.LIST: Machine._marked_list,
    pickle.DICT: Machine._marked_dict,
    pickle.FROZENSET: Machine._frozen,
    pickle.APPEND: lambda m: m._extend([m._pop()]),
    pickle.APPENDS: lambda m: m._extend(m._pop_mark()),
    pickle.SETITEM: lambda m: m._set_items([m._pop(), m._pop()][::-1]),
    pickle.SETITEMS: lambda m: m._set_items(m._pop_mark()),
    pickle.ADDITEMS: lambda m: m._add_items(m._pop_mark()),
    # The memo
    pickle.PUT: lambda m: m._remember(int(m._line())),
    pickle.BINPUT: _puts("<B"),
    pickle.LONG_BINPUT: _puts("<I"),
    pickle.MEMOIZE: Machine._memoize,
    pickle.GET: lambda m: m._push(m._memo[int(m._line())], 0),
    pickle.BINGET: _gets("<B"),
    pickle.LONG_BINGET: _gets("<I"),
    # Names, calls, storages
    pickle.GLOBAL: Machine._global,
    pickle.STACK_GLOBAL: Machine._stack_global,
    pickle.REDUCE: Machine._reduce,
    pickle.NEWOBJ: Machine._new_object,
    pickle.BUILD: Machine._build,
    pickle.BINPERSID: Machine._persistent,
}
Machine.operations.update({code[0]: run for code, run in _OPERATIONS.items()})
