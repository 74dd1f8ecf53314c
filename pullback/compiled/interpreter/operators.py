"""Operators of Python: arithmetic, comparisons, items, truth."""

from __future__ import annotations

import enum
import numbers
import operator
import types
from typing import Any

import numpy

from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.capture.traced import TracedArray
from pullback.compiled.interpreter import library
from pullback.compiled.interpreter.attributes import Attributes
from pullback.compiled.interpreter.frames import Walk
from pullback.compiled.interpreter.late import is_late
from pullback.compiled.interpreter.library import is_plain
from pullback.compiled.interpreter.natively import natively
from pullback.compiled.interpreter.outside import is_container, made_in_python
from pullback.compiled.interpreter.sources import MISSING, same_value
from pullback.compiled.interpreter.versions import SYMBOLS
from pullback.core.tensor import Tensor

__all__ = ["Operators"]

_REFLECTED = {"__lt__": "__gt__", "__gt__": "__lt__", "__le__": "__ge__", "__ge__": "__le__",
              "__eq__": "__eq__", "__ne__": "__ne__"}  # fmt: skip
_EQUAL: Any = object.__eq__
_SINGLE = frozenset({type(None), type(Ellipsis), type(NotImplemented)})
# What numbers that are inputs carry along as expressions.
_CARRIED = frozenset({
    "add", "sub", "mul", "floordiv", "mod", "truediv", "pow", "eq", "ne", "lt", "le", "gt", "ge",
})  # fmt: skip
_COMPARISONS = frozenset({"lt", "le", "eq", "ne", "gt", "ge"})
_IN_PLACE = {"i" + name.rstrip("_"): name for name in SYMBOLS.values()}
_UNARY = {"neg": "__neg__", "invert": "__invert__", "pos": "__pos__", "abs": "__abs__",
          "index": "__index__"}  # fmt: skip


def _is_place(one: Any) -> bool:
    """Whether it is an index that a tensor without dimensions holds."""
    return isinstance(one, Tensor) and one.ndim == 0 and one._array.dtype.kind in "iu"


def _is_simple(one: Any) -> bool:
    plain = one is None or one is Ellipsis or type(one) in (int, slice)
    return plain or _is_place(one)


def _are_numbers(*values: Any) -> bool:
    """Whether they are Python's own: those of NumPy are classes of float, too."""
    return all(type(one) in (int, float, bool) or type(one) in library.SIZED for one in values)


def _reflected_by(a: Any, function: Any, b: Any) -> Any:
    """An operator as the number on its right does it, which carries an expression along.

    Python asks the left one first, and a float makes a plain number of what is on its right.
    """
    special = f"__{function.__name__.rstrip('_')}__"
    method = getattr(type(b), _REFLECTED.get(special, f"__r{special[2:]}"))
    return natively(method, b, a)


class Operators(Attributes):
    """Python's operators on values of the capture."""

    handed: Any  # of calls.py
    picks: bool
    walked: Any  # of functions.py
    builtin_iter: Any  # of functions.py

    def own(self, value: Any, name: str) -> Any:
        """A special method that a class has in Python, or None."""
        kind = type(value)
        if isinstance(value, Tensor | Walk) or is_plain(value) or not made_in_python(kind):
            return None
        if isinstance(value, library.IDENTITY) and not isinstance(value, type):
            return None
        found, base = self.class_lookup(kind, name)
        if isinstance(found, types.FunctionType):
            return found
        theirs = base is not None and made_in_python(base) and not library.is_own(base)
        if theirs and found is not None and not library.is_fixed_class(base):
            raise CannotCapture(f"{name} of {kind.__name__}, which is no Python function")
        return None

    def binary(self, function: Any, a: Any, b: Any) -> Any:
        """`a + b` and its like; also in place."""
        name = function.__name__
        special = f"__{name.rstrip('_')}__"
        if name in _IN_PLACE:
            method = self.own(a, special)
            if method is not None:
                return self.call(method, (a, b))
            if isinstance(a, Tensor | TracedArray):
                return self.step(function, (a, b))
            if isinstance(a, numpy.ndarray):
                return self._array_in_place(function, a, b)
            if is_container(a) and not isinstance(a, tuple | frozenset):
                return self._in_place(a, special, b)
            function = getattr(operator, _IN_PLACE[name])
            special = f"__{_IN_PLACE[name].rstrip('_')}__"
        mine = self.own(a, special)
        reflected = _REFLECTED.get(special, f"__r{special[2:]}")
        theirs = self.own(b, reflected)
        if isinstance(a, Tensor) and isinstance(b, numbers.Number):
            theirs = None  # tensors answer for numbers themselves
        first_theirs = (
            theirs is not None
            and mine is not None
            and type(a) is not type(b)
            and issubclass(type(b), type(a))
        )
        if first_theirs:
            result = self.call(theirs, (b, a))
            if result is not NotImplemented:
                return result
        if mine is not None:
            result = self.call(mine, (a, b))
            if result is not NotImplemented:
                return result
        if theirs is not None and not first_theirs:
            result = self.call(theirs, (b, a))
            if result is not NotImplemented:
                return result
        if (mine is not None or theirs is not None) and special in ("__eq__", "__ne__"):
            for one, method in ((a, mine), (b, theirs)):
                if method is None and type(one).__eq__ is not _EQUAL:
                    raise CannotCapture("a comparison that Python code leaves to native code")
            return self.identical(a, b) is (special == "__eq__")
        return self._native_binary(function, special, a, b)

    def identical(self, a: Any, b: Any) -> bool:
        """`a is b`, which is guarded: by what they are, or by their being two where that varies."""
        if is_late(a) or is_late(b):
            is_one = is_late(a) and is_late(b) and a.text == b.text and a.text.isalnum()
            if not (is_one or a is None or b is None):
                raise CannotCapture("whether a number is another object")
            return is_one
        if a is None or b is None:
            return a is b
        if _has_equals(a) and _has_equals(b):
            if same_value(a, b):  # guards ask for the value alone
                raise CannotCapture("whether two equal numbers or texts are one object")
            return False
        sources = [self.source(one) for one in (a, b)]
        for one, source in zip((a, b), sources, strict=True):
            if isinstance(one, Tensor):
                self.identities = True
            if source is not None and source.kind not in ("root", "leaf"):
                self.guards.add("is", source, self.originals.get(id(one), one))
        kinds = [None if one is None else one.kind for one in sources]
        if a is not b and None not in kinds and "leaf" in kinds:
            self.guards.add("apart", *sources)  # type: ignore[arg-type]  # none of them is None
        return a is b

    def _in_place(self, a: Any, special: str, b: Any) -> Any:
        if self.source(a) is not None:
            self.method(a, special, (self._items_of(b),), {})
            return a
        self.touched += 1
        return self.admitted(natively(getattr(operator, f"i{special[3:-2]}"), a, self._items_of(b)))

    def _array_in_place(self, function: Any, a: Any, b: Any) -> Any:
        if not a.flags.writeable or not (is_plain(b) or isinstance(b, numpy.ndarray)):
            raise CannotCapture("a NumPy array from outside, or with objects, is written")
        self.touched += 1
        return natively(function, a, b)

    def _items_of(self, value: Any) -> Any:
        """What native code may walk."""
        if isinstance(value, Walk):
            return self.walked(value)
        if isinstance(value, Tensor):
            return list(self.builtin_iter(value))
        return self.inside(value)

    def _native_binary(self, function: Any, special: str, a: Any, b: Any) -> Any:
        if isinstance(a, Walk) or isinstance(b, Walk):
            raise CannotCapture("a generator as an operand")
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            return self.step(function, (a, b))
        if type(b) in library.SIZED or is_late(a):
            if function.__name__.rstrip("_") not in _CARRIED or not _are_numbers(a, b):
                a, b = self.late.pinned(a), self.late.pinned(b)
            elif type(b) in library.SIZED and type(a) not in library.SIZED:
                return _reflected_by(a, function, b)
        if is_plain(a) and is_plain(b):
            return natively(function, a, b)
        if isinstance(a, library.IDENTITY) or isinstance(b, library.IDENTITY):
            return natively(function, a, b)
        compares = special in _REFLECTED or special == "__mod__"
        a, b = self.inside(a), self.inside(b)
        if compares:
            a, b = self.late.pinned(a), self.late.pinned(b)
        if compares and a is not b and not (self.comparable(a) and self.comparable(b)):
            by_identity = type(a).__eq__ is _EQUAL and special in ("__eq__", "__ne__")
            if not by_identity and not (a is None or b is None):
                raise CannotCapture("a comparison, or the text, of objects")
            if by_identity:
                self.identical(a, b)
        for one in (a, b):
            usual = is_plain(one) or is_container(one) or isinstance(one, numpy.ndarray)
            views = type(one).__name__ in ("dict_keys", "dict_items", "dict_values")
            if not (usual or views) and special not in ("__eq__", "__ne__"):
                raise CannotCapture(
                    f"{function.__name__} of an object of class {type(one).__name__}"
                )
        return self.admitted(natively(function, a, b))

    def unary(self, function: Any, a: Any) -> Any:
        """`-a` and its like."""
        method = self.own(a, _UNARY.get(function.__name__, "?"))
        if method is None and function is operator.invert and isinstance(a, enum.Flag):
            method = enum.Flag.__invert__  # which remembers its answer: an effect
        if method is not None:
            return self.call(method, (a,))
        if isinstance(a, Tensor):
            return self.step(function, (a,))
        if is_late(a) and function.__name__ not in ("neg", "pos", "abs"):
            a = self.late.pinned(a)
        return self.admitted(natively(function, self.inside(a)))

    def get_item(self, value: Any, key: Any) -> Any:
        """`value[key]`."""
        key = self.late.pinned(key)
        if isinstance(value, Tensor):
            key = self._index(key)
            items = key if isinstance(key, tuple) else (key,)
            if self.picks and any(map(_is_place, items)) and all(map(_is_simple, items)):
                return self._picked(value, items)
            return self.step(operator.getitem, (value, key))
        method = self.own(value, "__getitem__")
        if method is not None:
            return self.call(method, (value, key))
        if isinstance(value, type):
            if isinstance(value, enum.EnumMeta):
                return self.read(value[key], self.root(value).attr("_member_map_").value(key))
            return natively(operator.getitem, value, key)  # an alias of a generic class
        if isinstance(key, Tensor) and not isinstance(value, dict):
            raise CannotCapture("a tensor as an index of a Python object, which needs its value")
        key = self.subscript(value, key)
        if is_container(value):
            return self.item(value, key)
        if is_plain(value) or isinstance(value, numpy.ndarray):
            return self.admitted(natively(operator.getitem, value, key))
        if isinstance(value, tuple | list | dict) and id(value) in self.made:
            return self.admitted(natively(operator.getitem, value, key))
        if isinstance(value, dict | list) and self.source(value) is not None:
            return self._item_of_subclass(value, key)
        raise CannotCapture(f"an item of an object of class {type(value).__name__}")

    def _picked(self, value: Tensor, items: tuple[Any, ...]) -> Any:
        """`value[:, place]`, where a tensor of no dimensions says which: a gather.

        In eager it shares memory with `value`: a write to either ends the capture (tracer.py).
        """
        made, dim = value, 0
        rest = value.ndim - sum(one is not None and one is not Ellipsis for one in items)
        for one in items:
            if one is Ellipsis:
                dim += rest
            elif _is_place(one):
                at = self.step(Tensor.reshape, (one, (1,)))
                made = self.step(operator.getitem, (made, (*[slice(None)] * dim, at)))
                made = self.step(Tensor.select, (made, dim, 0))
                made._array.storage.is_picked = True
            else:
                made = self.step(operator.getitem, (made, (*[slice(None)] * dim, one)))
                dim += not isinstance(one, int)
        value._array.storage.is_picked = True
        return made

    def _item_of_subclass(self, value: Any, key: Any) -> Any:
        """An item of a user's class of dicts or lists, which has no `__getitem__` of its own."""
        source = self.source(value)
        assert source is not None
        if isinstance(value, dict) and self.class_lookup(type(value), "__missing__")[0] is MISSING:
            self.hashable(key)
            found = dict.get(value, key, library)
            if found is not library:
                return self.read(found, source.value(key))
        raise CannotCapture(f"an item of an object of class {type(value).__name__}")

    def subscript(self, value: Any, key: Any) -> Any:
        """A key as native code may have it: a number, where its class says that it is one."""
        if is_plain(key) or isinstance(value, dict | types.MappingProxyType):
            return key
        if isinstance(key, slice):
            raise CannotCapture("a slice between objects")
        method = self.own(key, "__index__")
        return key if method is None else self.call(method, (key,))

    def _index(self, key: Any) -> Any:
        """An index as the library takes it."""
        if isinstance(key, tuple):
            return tuple(map(self._index, self.inside(key)))
        return self.inside(key)

    def set_at(self, owner: Any, key: Any, value: Any) -> None:
        """`owner[key] = value`."""
        key = self.late.pinned(key)
        self.touched += 1
        if isinstance(owner, Tensor):
            self.step(operator.setitem, (owner, self._index(key), value))
            return
        method = self.own(owner, "__setitem__")
        if method is not None:
            self.call(method, (owner, key, value))
        elif is_container(owner) and self.source(owner) is not None:
            self.set_item(owner, self.subscript(owner, key), value)
        elif isinstance(owner, numpy.ndarray):
            if not owner.flags.writeable:
                raise CannotCapture("a NumPy array from outside is written")
            natively(operator.setitem, owner, self.inside(key), self.inside(value))
        elif id(owner) in self.made:
            if isinstance(owner, dict):
                self.hashable(key)
            natively(operator.setitem, owner, self.subscript(owner, key), value)
        else:
            raise CannotCapture(f"an item of an object of class {type(owner).__name__} is written")

    def delete_at(self, owner: Any, key: Any) -> None:
        """`del owner[key]`."""
        key = self.late.pinned(key)
        self.touched += 1
        method = self.own(owner, "__delitem__")
        if method is not None:
            self.call(method, (owner, key))
        elif is_container(owner) and self.source(owner) is not None:
            self.del_item(owner, self.subscript(owner, key))
        elif id(owner) in self.made:
            natively(operator.delitem, owner, self.subscript(owner, key))
        else:
            raise CannotCapture(f"an item of an object of class {type(owner).__name__} is deleted")

    def is_in(self, value: Any, key: Any) -> bool:
        """`key in value`."""
        key = self.late.pinned(key)
        method = self.own(value, "__contains__")
        if method is not None:
            return self.truth(self.call(method, (value, key)))
        if isinstance(value, Tensor):
            raise CannotCapture("__contains__ of a tensor, which needs its values")
        if is_container(value):
            return self.contains(value, key)
        if is_plain(value):
            return bool(natively(operator.contains, value, key))
        if (
            isinstance(value, list | tuple | dict)
            and id(value) in self.made
            and self.comparable(key)
        ):
            return bool(natively(operator.contains, value, key))
        if isinstance(value, list | tuple | dict | set | frozenset):  # C looks, not `__iter__`
            raise CannotCapture(f"whether something is in a {type(value).__name__}")
        for one in self.builtin_iter(value):
            is_one = one is key if _has_equals(one) else self.identical(one, key)
            if is_one or self.truth(self.binary(operator.eq, one, key)):
                return True
        return False

    def truth(self, value: Any) -> bool:
        """`bool(value)`."""
        if value is True or value is False or value is None:
            return bool(natively(bool, value))
        if isinstance(value, Tensor):
            return bool(self.step(bool, (value,)))
        if is_container(value):
            return bool(self.length(value))
        method = self.own(value, "__bool__")
        if method is not None:
            return bool(self.call(method, (value,)))
        method = self.own(value, "__len__")
        if method is not None:
            return bool(self.call(method, (value,)))
        decides = hasattr(type(value), "__bool__") or hasattr(type(value), "__len__")
        known = is_plain(value) or isinstance(value, library.IDENTITY)
        if decides and not known and self.source(value) is not None:
            raise CannotCapture(f"the truth of an object of class {type(value).__name__}")
        return bool(natively(bool, value))


def _has_equals(value: Any) -> bool:
    """Whether it is a number or text, of which several objects may be equal."""
    return is_plain(value) and not isinstance(value, bool) and type(value) not in _SINGLE
