"""Builtin functions that look at objects, asked of values of the capture."""

from __future__ import annotations

import abc
import enum
import itertools
import operator
import types
from typing import Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.interpreter import library, polyfills
from pullback.compiled.interpreter.frames import Walk
from pullback.compiled.interpreter.late import is_late
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.natively import is_theirs, natively
from pullback.compiled.interpreter.operators import Operators
from pullback.compiled.interpreter.outside import is_container, made_in_python
from pullback.compiled.interpreter.words import words
from pullback.core.tensor import Tensor

__all__ = ["Functions"]

_ITERATORS = words("""
    list_iterator tuple_iterator dict_keyiterator dict_valueiterator dict_itemiterator set_iterator
    range_iterator str_ascii_iterator str_iterator list_reverseiterator dict_reversekeyiterator
    bytes_iterator reversed _deque_iterator bytearray_iterator longrange_iterator
""")
_VIEWS = frozenset(
    {"dict_keys", "dict_values", "dict_items", "odict_keys", "odict_values", "odict_items"}
)

_MOST_ITEMS = 10_000  # of a generator that is walked at once


class Functions(Operators):
    """The builtins, as methods `builtin_NAME`."""

    enter: Any  # of calls.py
    pure: Any
    frames: list[Any]

    def builtin_len(self, value: Any) -> Any:
        """`len`."""
        if isinstance(value, Tensor):
            if not value.shape:
                return natively(len, value)
            return value.shape[0]  # which may remember that it varies
        method = self.own(value, "__len__")
        if method is not None:
            return self.call(method, (value,))
        if is_container(value):
            return self.length(value)
        if is_plain(value) or id(value) in self.made or type(value).__name__ in _VIEWS:
            return natively(len, value)
        raise CannotCapture(f"len() of an object of class {type(value).__name__}")

    def builtin_iter(self, value: Any, *more: Any) -> Any:
        """`iter`."""
        if more:
            raise CannotCapture("iter() with a sentinel")
        if isinstance(value, Tensor):
            return self.new(iter(self.step(Tensor.unbind, (value,))))
        if isinstance(value, Walk):
            return value
        method = self.own(value, "__iter__")
        if method is not None:
            return self.call(method, (value,))
        if is_container(value):
            inside, source = self.current(value)
            return self.new(iter(inside if source is None else self.copied(value)))
        if isinstance(value, enum.EnumMeta):
            return self.new(iter(list(value)))
        if isinstance(value, numpy.ndarray):
            return self.new(iter(self.admitted(list(value))))
        name = type(value).__name__
        if is_plain(value) or name in _VIEWS or (id(value) in self.made and name in _ITERATORS):
            return self.new(natively(iter, value))
        if isinstance(value, list | tuple | dict) and id(value) in self.made:
            return self.new(iter(value))
        if self.source(value) is not None and not isinstance(value, library.IDENTITY):
            raise CannotCapture(f"a {name} from outside, which the call would use up")
        raise CannotCapture(f"a walk over an object of class {name}")

    def walked(self, value: Any) -> list[Any]:
        """What a generator yields."""
        self.touched += 1
        found = list(itertools.islice(value, _MOST_ITEMS + 1))
        if len(found) > _MOST_ITEMS:
            raise CannotCapture("a generator of many values, or without end")
        return found

    def builtin_reversed(self, value: Any) -> Any:
        """`reversed`."""
        if isinstance(value, set | frozenset):
            raise TypeError(f"{type(value).__name__!r} object is not reversible")
        method = self.own(value, "__reversed__")
        if method is not None:
            return self.call(method, (value,))
        if not (is_container(value) or is_plain(value)):
            raise CannotCapture(f"reversed() of an object of class {type(value).__name__}")
        return self.new(iter(list(self.builtin_iter(value))[::-1]))

    def builtin_next(self, value: Any, *default: Any) -> Any:
        """`next`."""
        if self.source(value) is not None:
            kind = type(value).__name__
            method = self.own(value, "__next__")
            if method is None:
                raise CannotCapture(f"next() of a {kind} from outside, which the call uses up")
        try:
            method = self.own(value, "__next__")
            if method is not None:
                return self.call(method, (value,))
            if not isinstance(value, Walk) and id(value) not in self.made:
                raise CannotCapture(f"next() of a {type(value).__name__}")
            self.touched += 1
            if self.later is not None:
                self.later.check(value)
            found = natively(next, value)
            if isinstance(found, list | dict | set) and not self.is_known(found):
                raise CannotCapture(f"an iterator gives a {type(found).__name__} that nobody read")
            return self.admitted(found)
        except StopIteration:
            if default:
                return default[0]
            raise

    def builtin_getattr(self, value: Any, name: str, *default: Any) -> Any:
        """`getattr`."""
        if not isinstance(name, str):
            raise TypeError(f"attribute name must be string, not {type(name).__name__!r}")
        try:
            return self.load_attr(value, name)
        except AttributeError as error:
            if default and is_theirs(error):
                return default[0]
            raise

    def builtin_hasattr(self, value: Any, name: str) -> bool:
        """`hasattr`."""
        try:
            self.builtin_getattr(value, name)
        except AttributeError as error:
            if not is_theirs(error):
                raise
            return False
        return True

    def builtin_setattr(self, value: Any, name: str, new: Any) -> None:
        """`setattr`."""
        if not isinstance(name, str):
            raise TypeError(f"attribute name must be string, not {type(name).__name__!r}")
        self.store_attr(value, name, new)

    def builtin_delattr(self, value: Any, name: str) -> None:
        """`delattr`."""
        self.delete_attr(value, name)

    def builtin_isinstance(self, value: Any, kinds: Any) -> bool:
        """`isinstance`."""
        value = self.originals.get(id(value), value)
        kinds = self.inside(kinds)
        for kind in kinds if isinstance(kinds, tuple) else (kinds,):
            self._check_class(kind, "isinstance")
        self._guard_class(type(value), kinds)
        return bool(natively(isinstance, value, kinds))

    def builtin_issubclass(self, one: Any, kinds: Any) -> bool:
        """`issubclass`."""
        kinds = self.inside(kinds)
        for kind in kinds if isinstance(kinds, tuple) else (kinds,):
            self._check_class(kind, "issubclass")
        self._guard_class(one, kinds)
        return bool(natively(issubclass, one, kinds))

    def _guard_class(self, one: type, kinds: Any) -> None:
        """That a class has the same bases later, and is registered with the same others."""
        if one in library.SIZED:
            return
        is_theirs = made_in_python(one) and not library.is_own(one)
        if is_theirs:
            self.class_dict(one)  # guards the order of its bases
            if any("__class__" in vars(base) for base in one.__mro__[:-1]):
                raise CannotCapture(f"{one.__name__} says itself which class it is of")
        for kind in _flat(kinds):
            is_asked = is_theirs or not library.is_fixed_class(kind)
            if isinstance(kind, abc.ABCMeta) and is_asked and not library.is_own(kind):
                asked = self.root(issubclass).call((one, kind))
                self.guards.add("is", asked, natively(issubclass, one, kind))

    def _check_class(self, kind: Any, asked: str) -> None:
        if isinstance(kind, tuple):
            for one in kind:
                self._check_class(one, asked)
            return
        if type(kind) in (type, types.UnionType) or not isinstance(kind, type):
            return
        fixed = library.is_fixed_class(kind) or library.is_own(kind)
        decides: Any = type(kind).__dict__.keys() & {"__instancecheck__", "__subclasscheck__"}
        decides = decides or library.is_fixed_class(type(kind))
        if not fixed and decides and not isinstance(kind, enum.EnumMeta):
            raise CannotCapture(f"{asked} of {kind.__name__}, whose metaclass decides")

    def builtin_callable(self, value: Any) -> bool:
        """`callable`."""
        if self.own(value, "__call__") is not None:
            return True
        return callable(value)

    def builtin_vars(self, *values: Any) -> Any:
        """`vars`."""
        if not values:
            raise CannotCapture("vars() without an argument")
        return self.load_attr(values[0], "__dict__")

    def builtin_globals(self) -> Any:
        """`globals`."""
        return self.constant(self.frames[-1].names)

    def builtin_sorted(self, items: Any, **options: Any) -> Any:
        """`sorted`."""
        listed = self.new(list(self.builtin_iter(items)))
        if options.get("key") is not None:
            return self.enter(polyfills.sorted_, (listed,), options)
        if not self.comparable(listed):
            raise CannotCapture("sorted() of objects, which compares them")
        options.pop("key", None)
        return self.new(natively(sorted, listed, **options))

    def builtin_max(self, *args: Any, **options: Any) -> Any:
        """`max`."""
        return self._extreme(max, polyfills.max_, args, options)

    def builtin_min(self, *args: Any, **options: Any) -> Any:
        """`min`."""
        return self._extreme(min, polyfills.min_, args, options)

    def _extreme(self, function: Any, polyfill: Any, args: Any, options: Any) -> Any:
        items = self.new(list(self.builtin_iter(args[0])) if len(args) == 1 else list(args))
        if all(map(is_plain, items)) and options.get("key") is None:
            options.pop("key", None)
            if any(type(one) in library.SIZED for one in items):
                return self._extreme_number(operator.gt if function is max else operator.lt, items)
            return natively(function, items, **options)
        return self.enter(polyfill, (items,), options)

    def _extreme_number(self, comes_before: Any, items: list[Any]) -> Any:
        """Of numbers that vary, each compared as the function's own code would."""
        best = items[0]
        for one in items[1:]:
            if self.truth(self.binary(comes_before, one, best)):
                best = one
        return best

    def builtin_bool(self, value: Any = False) -> bool:
        """`bool`."""
        return self.truth(value)

    def builtin_int(self, value: Any = 0, *base: Any) -> Any:
        """`int`."""
        return self._converted(int, "__int__", value, base)

    def builtin_float(self, value: Any = 0.0) -> Any:
        """`float`."""
        return self._converted(float, "__float__", value, ())

    def _converted(self, kind: Any, special: str, value: Any, rest: Any) -> Any:
        method = self.own(value, special)
        if method is not None and not rest:
            return self.call(method, (value,))
        if isinstance(value, Tensor):
            return self.step(kind, (value,))
        if is_late(value) and not rest:
            return self.late.converted(kind, value)
        if isinstance(value, Walk):  # which Python refuses before it takes anything from it
            raise CannotCapture(f"{kind.__name__}() of a generator")
        return self.pure(kind, (value, *rest), {})

    def builtin_abs(self, value: Any) -> Any:
        """`abs`."""
        return self.unary(operator.abs, value)

    def builtin_id(self, value: Any) -> int:
        """`id`."""
        source = self.source(value)
        if source is None:
            raise CannotCapture("the id of an object made here")
        self.guards.add("is", source, self.originals.get(id(value), value))
        return id(self.originals.get(id(value), value))

    def builtin_hash(self, value: Any) -> int:
        """`hash`."""
        if not self.comparable(value):
            raise CannotCapture("the hash of an object")
        return hash(self.late.pinned(value))

    def builtin_repr(self, value: Any) -> str:
        """`repr`."""
        return str(self.text_of(value, repr))

    def builtin_str(self, value: Any = "", *more: Any) -> str:
        """`str`."""
        return str(self.text_of(value, str, *more))

    def builtin_ascii(self, value: Any) -> str:
        """`ascii`."""
        return str(self.text_of(value, ascii))

    def builtin_format(self, value: Any, spec: str = "") -> str:
        """`format`."""
        return str(self.text_of(value, format, spec))

    def text_of(self, value: Any, how: Any, *more: Any) -> Any:
        """The text of a value, where nobody but C writes it."""
        if isinstance(value, types.MappingProxyType | memoryview):
            raise CannotCapture(f"the text of a {type(value).__name__}")
        value = self.late.pinned(self.inside(value))
        special = {
            "repr": "__repr__",
            "ascii": "__repr__",
            "str": "__str__",
            "format": "__format__",
        }
        method = self.own(value, special[how.__name__])
        if method is not None:
            return self.call(method, (value, *more))
        if self.mentions_size(value):
            raise CannotCapture("the text of a size that varies")
        if isinstance(value, BaseException):
            return natively(how, value, *more)
        if not self.comparable(value):
            raise CannotCapture(f"the text of an object of class {type(value).__name__}")
        return natively(how, value, *more)

    def mentions_size(self, value: Any) -> bool:
        """Whether a size that varies is in it, which its text would lose."""
        if type(value) in (list, tuple) or isinstance(value, tuple):
            return any(map(self.mentions_size, value))
        return type(value) in library.SIZED

    def builtin_dir(self, *_: Any) -> Any:
        """`dir`."""
        raise CannotCapture("dir()")

    def builtin___import__(self, *_: Any) -> Any:
        """`__import__`."""
        raise CannotCapture("__import__()")


def _flat(kinds: Any) -> list[type]:
    """The classes that isinstance() is given, in tuples and unions."""
    if isinstance(kinds, types.UnionType):
        kinds = kinds.__args__
    if isinstance(kinds, tuple):
        return [one for part in kinds for one in _flat(part)]
    return [kinds] if isinstance(kinds, type) else []
